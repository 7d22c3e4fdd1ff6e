// The logistic function and its gradient, which reads y.
#include <cmath>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Sigmoid {
  static constexpr auto check = ops::check_same_boxes;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      y.global(b, ch, h, w) = T(1 / (1 + std::exp(-double(x.global(b, ch, h, w)))));
    });
  }
};

struct SigmoidBackward {
  static constexpr auto check = ops::check_same_boxes;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> y(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const double value = double(y.global(b, ch, h, w));
      dx.global(b, ch, h, w) = T(double(dy.global(b, ch, h, w)) * value * (1 - value));
    });
  }
};

}  // namespace

const KernelEntry sigmoid = entry<Sigmoid>();
const KernelEntry sigmoid_bwd = entry<SigmoidBackward>();

}  // namespace spillway::ref
