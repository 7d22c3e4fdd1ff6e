// Reflection padding and its gradient, pixel by pixel in whole-value coordinates.
#include "ops/reflectpad.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct ReflectPad {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const ops::Mirrors g = ops::reflect_geometry(ReflectPadAttrs::read(c.attrs), c.ins[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      y.global(b, ch, oy, ox) = x.global(b, ch, g.h.source(oy), g.w.source(ox));
    });
  }
};

struct ReflectPadBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), dx(c.outs[0]);
    const ops::Mirrors g = ops::reflect_geometry(ReflectPadBwdAttrs::read(c.attrs), c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) { dx.global(b, ch, h, w) = T(0); });
    each_element(c.ins[0], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      T& sum = dx.global(b, ch, g.h.source(oy), g.w.source(ox));
      sum = T(double(sum) + double(dy.global(b, ch, oy, ox)));
    });
  }
};

}  // namespace

const KernelEntry reflect_pad = entry<ReflectPad>();
const KernelEntry reflect_pad_bwd = entry<ReflectPadBackward>();

}  // namespace spillway::ref
