// The sum of a parameter's gradients, one after the other; in place of the first where the plan says so.
#pragma once
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::param_grad_sum> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    float* const sum = floats(c.outs[0]);
    const float* first = floats(c.ins[0]);
    for (uint32_t i = 1; i < c.n_ins; i++) {
      const float* const term = floats(c.ins[i]);
      exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t k) { sum[k] = first[k] + term[k]; });
      first = sum;
    }
  }
};

}  // namespace spillway::cuda
