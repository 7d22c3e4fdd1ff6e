// The loss scale: the gradients of losses times it, those of parameters over it, and its changes.
#include "ops/scaling.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct ScaleGradient {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> g(c.ins[0]), y(c.outs[0]);
    const double scale = double(Tensor<T>(c.ins[1])[0]);
    each_element(c.outs[0],
                 [&](int64_t b, int64_t ch, int64_t h, int64_t w) { y.global(b, ch, h, w) = T(double(g.global(b, ch, h, w)) * scale); });
  }
};

struct Unscale {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> g(c.ins[0]), y(c.outs[0]);
    const double factor = double(Tensor<T>(c.ins[1])[0]);
    for (int64_t i = 0; i < ops::elements(c.ins[0]); i++) y[i] = T(double(g[i]) * factor);
  }
};

struct AdjustScale {
  template <class T>
  static void run(const KernelCall& c) {
    ops::Scale<T>(c).adjust(AdjustScaleAttrs::read(c.attrs), c.step->step);
  }
};

}  // namespace

const KernelEntry scale_gradient = entry<ScaleGradient>();
const KernelEntry unscale = entry<Unscale>();
const KernelEntry adjust_scale = entry<AdjustScale>();

}  // namespace spillway::ref
