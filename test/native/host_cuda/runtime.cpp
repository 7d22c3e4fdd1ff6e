// The rest of the CUDA runtime: memory, copies, kernels, facts; and the driver's management library.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/libraries.hpp"
#include "test/native/host_cuda/memory.hpp"
#include "test/native/host_cuda/nccl.hpp"
#include "test/native/host_cuda/rules.hpp"
#include "test/native/host_cuda/shim/cuda/launch.cuh"
#include "test/native/host_cuda/streams.hpp"

namespace spillway::host_cuda {
namespace {

constexpr uint32_t WARP = 32;

cudaError_t forget_nothing = cudaSuccess;

/// The GPUs that this process sees, by their number in the machine, as CUDA_VISIBLE_DEVICES says: up to the first that is none.
std::vector<int> visible_gpus() {
  const char *const all = std::getenv("SPILLWAY_HOST_CUDA_GPUS"), *const named = std::getenv("CUDA_VISIBLE_DEVICES");
  const int machine = all ? std::atoi(all) : 1;
  std::vector<int> seen;
  if (!named)
    for (int i = 0; i < machine; i++) seen.push_back(i);
  std::istringstream list(named ? named : "");
  for (std::string one; std::getline(list, one, ',');) {
    char* end = nullptr;
    const long n = std::strtol(one.c_str(), &end, 10);
    if (one.empty() || *end || n < 0 || n >= machine) break;
    seen.push_back(int(n));
  }
  return seen;
}
std::string bus_of(int device) { return text("0000:0", visible_gpus().at(size_t(device)) + 1, ":00.0"); }

/// 90, or as SPILLWAY_HOST_CUDA_CAPABILITY says.
int capability() {
  const char* const named = std::getenv("SPILLWAY_HOST_CUDA_CAPABILITY");
  return named ? std::atoi(named) : 90;
}

bool leads_somewhere(Kind k) { return k != Kind::mixed; }

}  // namespace

Coordinates block_index{}, thread_index{};

namespace {

void run_grid(uint32_t blocks, uint32_t threads, void (*thread)(const void*), const void* arguments) {
  for (block_index.x = 0; block_index.x < blocks; block_index.x++)
    for (uint32_t warp = 0; warp < threads; warp += WARP)
      for (uint32_t lane = WARP; lane-- > 0;) {
        thread_index.x = warp + lane;
        thread(arguments);
      }
}

}  // namespace

cudaError_t launch_grid(uint32_t blocks, uint32_t threads, cudaStream_t stream, const void* arguments, size_t bytes,
                        void (*thread)(const void*)) {
  const std::lock_guard<std::recursive_mutex> lock(world());
  if (fails("a kernel")) return cudaErrorLaunchFailure;
  if (blocks == 0 || threads == 0 || threads > 1024 || threads % WARP != 0) return cudaErrorInvalidConfiguration;
  if (only_counts(counted_kernels)) return cudaSuccess;
  const std::shared_ptr<void> held(::operator new(bytes), [](void* p) { ::operator delete(p); });
  std::memcpy(held.get(), arguments, bytes);
  return enqueue(stream, ranges_in(arguments, bytes), [blocks, threads, thread, held] {
    run_grid(blocks, threads, thread, held.get());
    return cudaSuccess;
  });
}

}  // namespace spillway::host_cuda

using namespace spillway::host_cuda;

#define ENTER(name, code)                                    \
  const std::lock_guard<std::recursive_mutex> lock(world()); \
  if (fails(name)) return code;
/// Calls that a capture of this thread does not bear.
#define OUTSIDE \
  if (forbidden_now()) return cudaErrorStreamCaptureUnsupported;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t last = forget_nothing;
  forget_nothing = cudaSuccess;
  return last;
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorUnknown:
      return "imitated failure";
    default:
      return "another error";
  }
}

cudaError_t cudaGetDeviceCount(int* count) {
  ENTER("cudaGetDeviceCount", cudaErrorUnknown)
  const char* const says = std::getenv("SPILLWAY_HOST_CUDA_DEVICE");
  const std::string_view device = says ? says : "";
  *count = device == "none" ? 0 : int(visible_gpus().size());
  return device == "no driver"                                       ? cudaErrorInsufficientDriver
         : device == "undetected" || (device.empty() && *count == 0) ? cudaErrorNoDevice
                                                                     : cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  ENTER("cudaGetDevice", cudaErrorUnknown)
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  ENTER("cudaGetDeviceProperties", cudaErrorUnknown)
  if (device != 0) return cudaErrorInvalidDevice;
  std::memset(prop, 0, sizeof *prop);
  std::snprintf(prop->name, sizeof prop->name, "host cuda");
  prop->major = capability() / 10;
  prop->minor = capability() % 10;
  prop->multiProcessorCount = 1;
  return cudaSuccess;
}

/// The clocks and the bus of an H200.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  ENTER("cudaDeviceGetAttribute", cudaErrorUnknown)
  if (device != 0) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = capability() / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = capability() % 10;
      return cudaSuccess;
    case cudaDevAttrClockRate:
      *value = 1980000;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 3201000;
      return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 6144;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  ENTER("cudaDriverGetVersion", cudaErrorUnknown)
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  ENTER("cudaRuntimeGetVersion", cudaErrorUnknown)
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* into, int bytes, int device) {
  ENTER("cudaDeviceGetPCIBusId", cudaErrorUnknown)
  if (device != 0 || bytes < 13) return cudaErrorInvalidValue;
  std::snprintf(into, size_t(bytes), "%s", bus_of(device).c_str());
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  ENTER("cudaMemGetInfo", cudaErrorUnknown)
  *total = total_bytes();
  *free = total_bytes() - spillway::host_cuda::taken_bytes();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** at, size_t bytes) {
  ENTER("cudaMalloc", cudaErrorMemoryAllocation)
  OUTSIDE
  *at = allocate_device(bytes);
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void* at) {
  ENTER("cudaFree", cudaErrorUnknown)
  OUTSIDE
  drain_all();
  if (!free_device(at)) broken("what is freed is there", "cudaFree");
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned int) {
  ENTER("cudaHostAlloc", cudaErrorMemoryAllocation)
  OUTSIDE
  *at = allocate_pinned(bytes);
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void* at) {
  ENTER("cudaFreeHost", cudaErrorUnknown)
  OUTSIDE
  drain_all();
  if (!free_pinned(at)) broken("what is freed is there", "cudaFreeHost");
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* at, size_t bytes, unsigned int) {
  ENTER("cudaHostRegister", cudaErrorNotSupported)
  OUTSIDE
  return register_pinned(at, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
}

cudaError_t cudaHostUnregister(void* at) {
  ENTER("cudaHostUnregister", cudaErrorUnknown)
  OUTSIDE
  drain_all();
  if (!unregister_pinned(at)) broken("what is unregistered is registered", "cudaHostUnregister");
  return cudaSuccess;
}

/// Memory that is not pinned: it is read at once, and written by the end of the call.
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  ENTER("cudaMemsetAsync", cudaErrorUnknown)
  if (kind_of(at, bytes) != Kind::device) return cudaErrorInvalidValue;
  return enqueue(stream, ranges_in(&at, sizeof at), [at, value, bytes] {
    std::memset(at, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  ENTER("cudaMemcpyAsync", cudaErrorUnknown)
  const Kind into = kind_of(to, bytes), of = kind_of(from, bytes);
  if (!leads_somewhere(into) || !leads_somewhere(of)) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyHostToDevice && (into != Kind::device || of == Kind::device)) return cudaErrorInvalidValue;
  const bool pageable = into == Kind::pageable || of == Kind::pageable;
  if (pageable && is_capturing(stream)) return forbidden_now() ? cudaErrorStreamCaptureUnsupported : cudaErrorUnknown;
  const void* const ends[] = {to, from};
  const std::vector<uint64_t> touched = ranges_in(ends, sizeof ends);
  std::shared_ptr<char[]> staged;
  if (of == Kind::pageable) {
    staged.reset(new char[bytes]);
    std::memcpy(staged.get(), from, bytes);
  }
  const cudaError_t code = enqueue(stream, touched, [to, from, bytes, staged] {
    std::memmove(to, staged ? staged.get() : from, bytes);
    return cudaSuccess;
  });
  return code == cudaSuccess && into == Kind::pageable ? drain(stream) : code;
}

// ---------------------------------------------------------------- the management library

int nvmlInit_v2() {
  ENTER("nvmlInit_v2", 999)
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  ENTER("nvmlDeviceGetHandleByPciBusId_v2", 999)
  static int only;
  *device = &only;
  return bus_of(0) == bus_id ? 0 : 6;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned int* count, spillway::cuda::NvmlProcess* processes) {
  ENTER("nvmlDeviceGetComputeRunningProcesses_v3", 999)
  if (*count < 2) return 7;
  *count = 2;
  processes[0] = {1, 12345, 0, 0};
  processes[1] = {unsigned(::getpid()), spillway::host_cuda::taken_bytes(), 0, 0};
  return 0;
}

}  // extern "C"

/// The live objects: memory, streams, events, graphs.
extern "C" __attribute__((visibility("default"))) uint64_t spillway_host_cuda_live() {
  return live_memory() + live_handles() + live_communicators();
}
