// Work items as threads of the GPU. In: a stream. Out: each() launches a kernel there and keeps the first failure.
#pragma once
#include "cuda/kernels/exec.hpp"
#include "cuda/launch.cuh"
#include "cuda/libraries.hpp"
#include "cuda/ranks.hpp"

namespace spillway::cuda {

static_assert(BLOCK_THREADS == BLOCK_ITEMS);

template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS) run_items(uint32_t n, const F f) {
  const uint32_t i = blockIdx.x * BLOCK_THREADS + threadIdx.x;
  if (i < n) f(i);
}

class GpuExec {
 public:
  GpuExec(cudaStream_t stream, const StepContext* step, uint32_t* arrivals, Ranks* ranks = nullptr)
      : stream_(stream), step_(step), arrivals_(arrivals), ranks_(ranks) {}
  template <class F>
  void each(int64_t n, F f) {
    if (!launches(n)) return;
    status_ = checked(launch(run_items<F>, blocks(n, BLOCK_THREADS), stream_, uint32_t(n), f), "launching a kernel");
  }
  template <class K>
  void blocks(int64_t n, const K& k) {
    if (!launches(n)) return;
    status_ = checked(launch_phases(uint32_t(n), stream_, k), "launching a kernel");
  }
  /// On the stream of the ranks, which is this one's then.
  void trade(const ops::Group&, const std::vector<Parcel>& sends, const std::vector<Parcel>& takes) {
    if (status_.ok()) status_ = ranks_->trade(sends.data(), sends.size(), takes.data(), takes.size());
  }
  const StepContext* step() const { return step_; }
  uint32_t* arrivals() const { return arrivals_; }
  const Status& status() const { return status_; }

 private:
  static uint32_t blocks(int64_t n, uint32_t each) { return uint32_t((n + each - 1) / each); }
  bool launches(int64_t n) {
    if (status_.ok() && n >= MOST_ELEMENTS) status_ = refuse(n, " work items are too many for one kernel");
    return status_.ok() && n > 0;
  }

  cudaStream_t stream_;
  const StepContext* step_;  // on the device, as the next
  uint32_t* arrivals_;
  Ranks* ranks_;
  Status status_;
};

}  // namespace spillway::cuda
