// Streams, events, captures and graphs. Nothing runs when it is enqueued: jobs run on the thread that waits for them, in the worst order
// that events allow (rules.hpp): a missing event shows, each time. Worked example: a copy on `out` that compute never waits for runs after
// compute has overwritten its source.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace spillway::host_cuda {

/// cudaErrorNotReady: it waits for another process, and is to be run again.
using Job = std::function<cudaError_t()>;

/// `touched`: the ranges of device memory that it reads or writes.
cudaError_t enqueue(cudaStream_t stream, std::vector<uint64_t> touched, Job job);
/// Runs all that the stream was given so far.
cudaError_t drain(cudaStream_t stream);
cudaError_t drain_all();
bool is_capturing(cudaStream_t stream);
/// For calls that a capture of this thread forbids: the capture is lost. True when there is one.
bool forbidden_now();
/// A job failed: the device is lost for everybody.
cudaError_t lost();

/// Streams, events and graphs that are there still.
uint64_t live_handles();

}  // namespace spillway::host_cuda
