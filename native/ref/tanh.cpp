// The hyperbolic tangent and its gradient, which reads y.
#include <cmath>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Tanh {
  static constexpr auto check = ops::check_same_boxes;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      y.global(b, ch, h, w) = T(std::tanh(double(x.global(b, ch, h, w))));
    });
  }
};

struct TanhBackward {
  static constexpr auto check = ops::check_same_boxes;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> y(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const double value = double(y.global(b, ch, h, w));
      dx.global(b, ch, h, w) = T(double(dy.global(b, ch, h, w)) * (1 - value * value));
    });
  }
};

}  // namespace

const KernelEntry tanh = entry<Tanh>();
const KernelEntry tanh_bwd = entry<TanhBackward>();

}  // namespace spillway::ref
