// Kernels are written once, as work items without an order; an Exec runs them: threads of the GPU (cuda/exec.cuh), or a
// loop on the host, where they are held to the reference device without a GPU.
// In: each(n, f) runs f(i) for i in [0, n). Invariant: the items of one each() neither read what another writes nor care
// who is first; one each() is over when the next begins. words(n, bit, put) is the same with 32 items for each word that it puts.
#pragma once
#include <cstdint>

#include "ops/both.hpp"
#include "core/kernel.hpp"

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
  /// put(k, word) for k in [0, n): bit i of the word is bit(k, i), which may write what belongs to that bit alone.
  template <class Bit, class Put>
  void words(int64_t n, Bit bit, Put put) {
    for (int64_t k = 0; k < n; k++) {
      uint32_t word = 0;
      for (uint32_t i = 0; i < 32; i++) word |= uint32_t(bit(uint32_t(k), i)) << i;
      put(uint32_t(k), word);
    }
  }
  /// Where the step's scalars are when the items run.
  const StepContext* step() const { return step_; }

 private:
  const StepContext* step_;
};

}  // namespace spillway::cuda
