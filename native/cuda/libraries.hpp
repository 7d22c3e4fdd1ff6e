// Libraries of the plugin: the CUDA runtime (linked in), and the driver, cuDNN 9, cuBLASLt and NCCL, which are opened at their
// first use. In: nothing. Out: tables of their functions, or in words the missing part. Invariant: the plugin loads on a machine
// that has none of them.
#pragma once
#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>

#include "core/result.hpp"

struct ncclComm;

namespace spillway::cuda {

// Version 16 of clang-format does not settle on one form of these tables.
// clang-format off
#define SPILLWAY_DRIVER(X) \
  X(cuGetErrorString) X(cuMemGetAllocationGranularity) X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) \
  X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess)
#define SPILLWAY_CUDNN(X) \
  X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnCreate) X(cudnnDestroy) X(cudnnSetStream) X(cudnnBackendCreateDescriptor) \
  X(cudnnBackendDestroyDescriptor) X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) X(cudnnBackendExecute)
#define SPILLWAY_CUBLASLT(X) \
  X(cublasLtGetVersion) X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtMatmul) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) \
  X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic)

/// The driver's management library, whose header is not everywhere: the declarations that are used.
struct NvmlProcess { unsigned int pid; unsigned long long used_bytes; unsigned int gpu_instance, compute_instance; };
struct Nvml {
  int (*nvmlInit_v2)() = nullptr;
  int (*nvmlDeviceGetHandleByPciBusId_v2)(const char* bus_id, void** device) = nullptr;
  int (*nvmlDeviceGetComputeRunningProcesses_v3)(void* device, unsigned int* count, NvmlProcess* processes) = nullptr;
};

/// NCCL, whose header is not everywhere either; test/native/host_cuda/header/nccl.cpp compares this with
/// it.
struct NcclId { char internal[128]; };
using NcclComm = ::ncclComm*;
constexpr int NCCL_SUCCESS = 0, NCCL_BYTES = 0;
struct Nccl {
  int (*ncclGetVersion)(int* version) = nullptr;
  const char* (*ncclGetErrorString)(int code) = nullptr;
  int (*ncclGetUniqueId)(NcclId* id) = nullptr;
  int (*ncclCommInitRank)(NcclComm* comm, int ranks, NcclId id, int rank) = nullptr;
  int (*ncclCommDestroy)(NcclComm comm) = nullptr;
  int (*ncclCommAbort)(NcclComm comm) = nullptr;
  int (*ncclCommGetAsyncError)(NcclComm comm, int* code) = nullptr;
  int (*ncclGroupStart)() = nullptr;
  int (*ncclGroupEnd)() = nullptr;
  int (*ncclSend)(const void* from, size_t count, int type, int peer, NcclComm comm, cudaStream_t stream) = nullptr;
  int (*ncclRecv)(void* into, size_t count, int type, int peer, NcclComm comm, cudaStream_t stream) = nullptr;
};
#define SPILLWAY_NCCL(X) \
  X(ncclGetVersion) X(ncclGetErrorString) X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclCommDestroy) X(ncclCommAbort) X(ncclCommGetAsyncError) \
  X(ncclGroupStart) X(ncclGroupEnd) X(ncclSend) X(ncclRecv)
/// 23203: "2.32.3".
std::string nccl_version(int number);

#define SPILLWAY_POINTER(name) decltype(&::name) name = nullptr;
struct Driver { SPILLWAY_DRIVER(SPILLWAY_POINTER) };
struct Cudnn { SPILLWAY_CUDNN(SPILLWAY_POINTER) };
struct CublasLt { SPILLWAY_CUBLASLT(SPILLWAY_POINTER) };
#undef SPILLWAY_POINTER

// clang-format on

/// Each is loaded once: from the folders of $SPILLWAY_CUDA_LIBRARIES (separated by colons), those that set-up remembered, or the
/// system.
const Result<Driver>& driver();
const Result<Cudnn>& cudnn();
const Result<CublasLt>& cublas_lt();
const Result<Nvml>& nvml();
const Result<Nccl>& nccl();
/// Made once, for the life of the process.
Result<cublasLtHandle_t> cublas_lt_handle();

/// "cudaMalloc: out of memory", or well.
Status checked(cudaError_t code, const char* what);
Status checked(CUresult code, const char* what);
Status checked(cudnnStatus_t code, const char* what);
Status checked(cublasStatus_t code, const char* what);

}  // namespace spillway::cuda

/// Leaves the function with the status unless it is well.
#define SPILLWAY_TRY(expression)                                                  \
  do {                                                                            \
    if (::spillway::Status status_ = (expression); !status_.ok()) return status_; \
  } while (0)
#define SPILLWAY_CUDA(call) SPILLWAY_TRY(::spillway::cuda::checked(call, #call))
