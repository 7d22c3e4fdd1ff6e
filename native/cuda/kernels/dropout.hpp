// Dropout by counter: the mask is drawn for the element's place in the whole value, so tiles and recompute agree, and the
// bits are the cpu device's. The step and the seed are read when the items run: a graph that is replayed draws anew.
#pragma once
#include "core/philox.hpp"
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

template <class T, class Exec>
void masked_copy(Exec& exec, const KernelCall& call, DropoutAttrs a) {
  const PixelsOf<T> x(call.ins[0]), y(call.outs[0]);
  const View& v = call.outs[0];
  const StepContext* const step = exec.step();
  const uint32_t key = uint32_t(a.key), threshold = dropout_threshold(a.p);
  const float scale = float(1 / (1 - a.p));
  const int64_t width = v.extent[3], plane = v.extent[2] * width, image = v.extent[1] * plane;
  const int64_t first = v.origin[0] * image + v.origin[1] * plane + v.origin[2] * width + v.origin[3];
  exec.each(ops::elements(v), [=] SPILLWAY_BOTH(uint32_t i) {
    const Place at = Place::of(i, y.channels, y.height, y.width);
    const int64_t element = first + at.b * image + at.c * plane + at.h * width + at.w;
    const bool kept = dropout_keeps(step->seed, dropout_stream(step->step, key), uint64_t(element), threshold);
    y.at(at.b, at.h, at.w)[at.c] = kept ? x.at(at.b, at.h, at.w)[at.c] * scale : 0.0f;
  });
}

template <>
struct Kernel<OpKind::dropout> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    masked_copy<T>(exec, c, DropoutAttrs::read(c.attrs));
  }
};

template <>
struct Kernel<OpKind::dropout_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    masked_copy<T>(exec, c, DropoutBwdAttrs::read(c.attrs));
  }
};

}  // namespace spillway::cuda
