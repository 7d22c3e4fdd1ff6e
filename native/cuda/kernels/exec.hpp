// Kernels are written once, as work items without an order; an Exec runs them: threads of the GPU (cuda/exec.cuh), or a
// loop on the host, where they are held to the reference device without a GPU.
// In: each(n, f) runs f(i) for i in [0, n). Invariant: the items of one each() neither read what another writes nor care
// who is first; one each() is over when the next begins.
#pragma once
#include <cstdint>

#include "ops/both.hpp"
#include "runtime/kernel.hpp"

namespace spillway::cuda {

/// Libraries fail near 2^31 elements, and items are counted in 32 bits: plans tile below it.
constexpr int64_t MOST_ELEMENTS = int64_t(1) << 31;

class HostExec {
 public:
  explicit HostExec(const StepContext* step) : step_(step) {}
  template <class F>
  void each(int64_t n, F f) {
    for (int64_t i = 0; i < n; i++) f(uint32_t(i));
  }
  /// Where the step's scalars are when the items run.
  const StepContext* step() const { return step_; }

 private:
  const StepContext* step_;
};

}  // namespace spillway::cuda
