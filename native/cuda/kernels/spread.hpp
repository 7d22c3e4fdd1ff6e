// Each value of a parameter several times in a row, and the sums of their gradients.
#pragma once
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::spread> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float* const p = floats(c.ins[0]);
    float* const y = floats(c.outs[0]);
    const uint32_t times = uint32_t(SpreadAttrs::read(c.attrs).times);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) { y[i] = p[i / times]; });
  }
};

template <>
struct Kernel<OpKind::spread_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float* const dy = floats(c.ins[0]);
    float* const dp = floats(c.outs[0]);
    const uint32_t times = uint32_t(SpreadBwdAttrs::read(c.attrs).times);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      double sum = 0;
      for (uint32_t k = 0; k < times; k++) sum += double(dy[i * times + k]);
      dp[i] = float(sum);
    });
  }
};

}  // namespace spillway::cuda
