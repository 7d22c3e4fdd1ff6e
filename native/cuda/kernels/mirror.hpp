// A table of distances from one of absolute distances, and its gradient.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/mirror.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::mirror> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::MirrorPlan plan = ops::mirror_plan(c, c.ins[0]);
    const float* const p = floats(c.ins[0]);
    float* const y = floats(c.outs[0]);
    exec.each(ops::elements(c.outs[0]),
              [=] SPILLWAY_BOTH(uint32_t i) { y[i] = p[i % plan.count * plan.size() + plan.source(i / plan.count)]; });
  }
};

template <>
struct Kernel<OpKind::mirror_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::MirrorPlan plan = ops::mirror_plan(c, c.outs[0]);
    const float* const dy = floats(c.ins[0]);
    float* const dp = floats(c.outs[0]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const int64_t size = plan.size();
      double sum = 0;
      plan.each_sign(i % size, [&](int64_t row) { sum += double(dy[row * plan.count + i / size]); });
      dp[i] = float(sum);
    });
  }
};

}  // namespace spillway::cuda
