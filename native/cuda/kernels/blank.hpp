// A parameter with zeros in place of some values: an item is one value.
#pragma once
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::blank> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BlankAttrs::read(c.attrs);
    const float* const p = floats(c.ins[0]);
    float* const y = floats(c.outs[0]);
    exec.each(ops::elements(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) { y[i] = i >= a.from && i < a.to ? 0.0f : p[i]; });
  }
};

}  // namespace spillway::cuda
