// NCCL between processes of one machine. In: groups of sends and receives. Out: files of a folder that the id names, a file for a message;
// a stream's job sends its bytes at once, and ends after all awaited ones have come. Invariant: NCCL's rules are enforced: one stream for
// all of a communicator, sizes that agree, memory of the device, no use after the end, an end when all work is done.
#pragma once
#include <cstdint>

#include "cuda/libraries.hpp"

namespace spillway::host_cuda {

/// That are there still.
uint64_t live_communicators();

}  // namespace spillway::host_cuda

extern "C" {
int ncclGetVersion(int* version);
const char* ncclGetErrorString(int code);
int ncclGetUniqueId(spillway::cuda::NcclId* id);
int ncclCommInitRank(ncclComm** comm, int ranks, spillway::cuda::NcclId id, int rank);
int ncclCommDestroy(ncclComm* comm);
int ncclCommAbort(ncclComm* comm);
int ncclCommGetAsyncError(ncclComm* comm, int* code);
int ncclGroupStart();
int ncclGroupEnd();
int ncclSend(const void* from, size_t count, int type, int peer, ncclComm* comm, cudaStream_t stream);
int ncclRecv(void* into, size_t count, int type, int peer, ncclComm* comm, cudaStream_t stream);
}
