// Stochastic depth by counter: an image's lot is drawn for its place in the whole batch, so tiles and recompute agree, and it is the
// cpu device's. The step and the seed are read when the items run.
#pragma once
#include "core/philox.hpp"
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

struct DropImagesKernel : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = DropImagesAttrs::read(c.attrs);
    const PixelsOf<T> x(c.ins[0]), y(c.outs[0]);
    const StepContext* const step = exec.step();
    const uint32_t key = uint32_t(a.key), threshold = dropout_threshold(a.p);
    const float scale = float(1 / (1 - a.p));
    const int64_t first = c.outs[0].origin[0];
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place at = Place::of(i, y.channels, y.height, y.width);
      const bool kept = dropout_keeps(step->seed, dropout_stream(step->step, key), uint64_t(first + at.b), threshold);
      y.at(at.b, at.h, at.w)[at.c] = kept ? x.at(at.b, at.h, at.w)[at.c] * scale : 0.0f;
    });
  }
};

template <>
struct Kernel<OpKind::drop_images> : DropImagesKernel {};
template <>
struct Kernel<OpKind::drop_images_bwd> : DropImagesKernel {};

}  // namespace spillway::cuda
