// Work items as threads of the GPU. In: a stream. Out: each() launches a kernel there and keeps the first failure.
#pragma once
#include "cuda/kernels/exec.hpp"
#include "cuda/libraries.hpp"

namespace spillway::cuda {

constexpr uint32_t BLOCK_THREADS = 256;

template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS) run_items(uint32_t n, const F f) {
  const uint32_t i = blockIdx.x * BLOCK_THREADS + threadIdx.x;
  if (i < n) f(i);
}

class GpuExec {
 public:
  GpuExec(cudaStream_t stream, const StepContext* step) : stream_(stream), step_(step) {}
  template <class F>
  void each(int64_t n, F f) {
    if (!status_.ok() || n == 0) return;
    if (n >= MOST_ELEMENTS) {
      status_ = refuse(n, " work items are too many for one kernel");
      return;
    }
    run_items<<<uint32_t((n + BLOCK_THREADS - 1) / BLOCK_THREADS), BLOCK_THREADS, 0, stream_>>>(uint32_t(n), f);
    status_ = checked(cudaGetLastError(), "launching a kernel");
  }
  const StepContext* step() const { return step_; }
  const Status& status() const { return status_; }

 private:
  cudaStream_t stream_;
  const StepContext* step_;  // on the device
  Status status_;
};

}  // namespace spillway::cuda
