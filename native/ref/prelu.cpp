// The leaky rectifier with trained slopes, and its gradients.
#include "ops/prelu.hpp"

#include <vector>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Prelu {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), slope(call.ins[1]), y(call.outs[0]);
    const int64_t step = ops::slope_step(call);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      const double value = double(x.global(b, c, h, w));
      y.global(b, c, h, w) = T(value <= 0 ? double(slope[c * step]) * value : value);
    });
  }
};

struct PreluBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dy(call.ins[1]), slope(call.ins[2]), dx(call.outs[0]);
    const int64_t step = ops::slope_step(call);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      const double gradient = double(dy.global(b, c, h, w));
      dx.global(b, c, h, w) = T(double(x.global(b, c, h, w)) <= 0 ? double(slope[c * step]) * gradient : gradient);
    });
  }
};

struct SlopeGradient {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dy(call.ins[1]), dslope(call.outs[0]);
    const int64_t step = ops::slope_step(call);
    std::vector<double> sums(size_t(ops::elements(call.outs[0])));
    each_element(call.ins[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      const double value = double(x.global(b, c, h, w));
      if (value <= 0) sums[size_t(c * step)] += value * double(dy.global(b, c, h, w));
    });
    for (size_t i = 0; i < sums.size(); i++) dslope[int64_t(i)] = T(sums[i]);
  }
};

}  // namespace

const KernelEntry prelu = entry<Prelu>();
const KernelEntry prelu_bwd_data = entry<PreluBackward>();
const KernelEntry prelu_bwd_weights = entry<SlopeGradient>();

}  // namespace spillway::ref
