// Rectifiers, plain (slope 0) and leaky. A NaN passes through, as in PyTorch.
#include "ops/relu.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Relu {
  static constexpr auto check = ops::check_relu;
  template <class T>
  static void run(const KernelCall& c) {
    const double slope = ReluAttrs::read(c.attrs).slope;
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const double value = double(x.global(b, ch, h, w));
      y.global(b, ch, h, w) = T(value <= 0 ? (slope == 0 ? 0 : slope * value) : value);
    });
  }
};

struct ReluBackward {
  static constexpr auto check = ops::check_relu_bwd;
  template <class T>
  static void run(const KernelCall& c) {
    const double slope = ReluBwdAttrs::read(c.attrs).slope;
    const Tensor<T> y(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const double gradient = double(dy.global(b, ch, h, w));
      dx.global(b, ch, h, w) = T(double(y.global(b, ch, h, w)) <= 0 ? (slope == 0 ? 0 : slope * gradient) : gradient);
    });
  }
};

}  // namespace

const KernelEntry relu = entry<Relu>();
const KernelEntry relu_bwd = entry<ReluBackward>();

}  // namespace spillway::ref
