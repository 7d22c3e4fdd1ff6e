// The loss scale: the gradients of losses times it, those of parameters over it, and its changes. Numbers are read when the items run:
// a graph that is replayed has those of its step.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/scaling.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::scale_gradient> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<float> g(c.ins[0]), y(c.outs[0]);
    const float* const scale = floats(c.ins[1]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const uint32_t pixel = i / y.channels, ch = i % y.channels;
      y.at(pixel)[ch] = g.at(pixel)[ch] * *scale;
    });
  }
};

template <>
struct Kernel<OpKind::unscale> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float *const g = floats(c.ins[0]), *const factor = floats(c.ins[1]);
    float* const y = floats(c.outs[0]);
    exec.each(ops::elements(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) { y[i] = g[i] * *factor; });
  }
};

template <>
struct Kernel<OpKind::adjust_scale> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = AdjustScaleAttrs::read(c.attrs);
    const StepContext* const step = exec.step();
    const ops::Scale<float> scale(c);
    exec.each(1, [=] SPILLWAY_BOTH(uint32_t) { scale.adjust(a, step->step); });
  }
};

}  // namespace spillway::cuda
