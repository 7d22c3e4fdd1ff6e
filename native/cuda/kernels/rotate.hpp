// Rotary positions: an item is one element.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/rotate.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::rotate> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& v = c.outs[0];
    const PixelsOf<T> x(c.ins[0]), y(v);
    const ops::RotatePlan plan(c);
    const int64_t top = v.origin[2], left = v.origin[3];
    exec.each(ops::elements(v), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place at = Place::of(i, y.channels, y.height, y.width);
      const T* const from = x.at(at.b, at.h, at.w);
      const double angle = plan.angle(int64_t(at.c) % plan.a.head / 2, at.h + top, at.w + left);
      y.at(at.b, at.h, at.w)[at.c] =
          ops::RotatePlan::rotated(int64_t(at.c), float(from[at.c]), float(from[at.c ^ 1]), float(std::cos(angle)), float(std::sin(angle)));
    });
  }
};

}  // namespace spillway::cuda
