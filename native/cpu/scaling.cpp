// The loss scale: the gradients of losses times it, those of parameters over it, and its changes.
#include "ops/scaling.hpp"

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

/// By one number, on a tensor or a whole value.
struct Times : PlainKernel {
  static void run(const KernelCall& c) {
    const float factor = *floats(c.ins[1]);
    const auto multiply = [factor](Pointers<2> at, int64_t n) {
      float *const y = at[0], *const g = at[1];
#pragma omp simd
      for (int64_t i = 0; i < n; i++) y[i] = g[i] * factor;
    };
    if (OpKind(c.kind) == OpKind::unscale)
      each_chunk<2>({&c.outs[0], &c.ins[0]}, multiply);
    else
      each_run<2>({&c.outs[0], &c.ins[0]}, multiply);
  }
};

struct AdjustScale : PlainKernel {
  static void run(const KernelCall& c) { ops::Scale<float>(c).adjust(AdjustScaleAttrs::read(c.attrs), c.step->step); }
};

}  // namespace

const KernelEntry scale_gradient = entry<Times>();
const KernelEntry unscale = entry<Times>();
const KernelEntry adjust_scale = entry<AdjustScale>();

}  // namespace spillway::cpu
