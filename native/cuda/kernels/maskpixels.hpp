// Pixels of a mask: factors of losses, labels that losses ignore outside, and values for max pools outside.
#pragma once
#include "cuda/kernels/loss.hpp"
#include "cuda/kernels/multiply.hpp"
#include "ops/maskpixels.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::mask_factors> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::Statistics<float> stats(c.ins[1]);
    const Pixels mask(c.ins[0]), factors(c.outs[0]);
    exec.each(ops::pixels(c.outs[0]),
              [=] SPILLWAY_BOTH(uint32_t pixel) { factors.at(pixel)[0] = float(ops::mask_factor(double(mask.at(pixel)[0]), stats)); });
  }
};

template <>
struct Kernel<OpKind::mask_labels> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const int32_t outside = int32_t(MaskLabelsAttrs::read(c.attrs).ignore_index);
    const Labels labels(c.ins[0]), y(c.outs[0]);
    const Pixels mask(c.ins[1]);
    int32_t* const to = static_cast<int32_t*>(c.outs[0].data);
    exec.each(ops::pixels(c.outs[0]),
              [=] SPILLWAY_BOTH(uint32_t pixel) { to[y.place(pixel)] = mask.at(pixel)[0] > 0 ? labels.at(pixel) : outside; });
  }
};

template <>
struct Kernel<OpKind::mask_fill> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float value = float(MaskFillAttrs::read(c.attrs).value);
    const PixelsOf<T> x(c.ins[0]), y(c.outs[0]);
    const Factor<T> mask(c.ins[1], c.ins[0]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place p = Place::of(i, y.channels, y.height, y.width);
      y.at(p.b, p.h, p.w)[p.c] = mask.at(p) > 0 ? float(x.at(p.b, p.h, p.w)[p.c]) : value;
    });
  }
};

}  // namespace spillway::cuda
