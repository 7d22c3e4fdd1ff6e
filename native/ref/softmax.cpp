// Softmax over the channels of a pixel, and its gradient, which reads y.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Softmax {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const int64_t channels = c.ins[0].dims[1];
    each_pixel(c.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t i = 0; i < channels; i++) most = std::max(most, double(x.global(b, i, h, w)));
      for (int64_t i = 0; i < channels; i++) sum += std::exp(double(x.global(b, i, h, w)) - most);
      for (int64_t i = 0; i < channels; i++) y.global(b, i, h, w) = T(std::exp(double(x.global(b, i, h, w)) - most) / sum);
    });
  }
};

struct SoftmaxBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> y(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    const int64_t channels = c.ins[0].dims[1];
    each_pixel(c.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      double sum = 0;
      for (int64_t i = 0; i < channels; i++) sum += double(dy.global(b, i, h, w)) * double(y.global(b, i, h, w));
      for (int64_t i = 0; i < channels; i++)
        dx.global(b, i, h, w) = T(double(y.global(b, i, h, w)) * (double(dy.global(b, i, h, w)) - sum));
    });
  }
};

}  // namespace

const KernelEntry softmax = entry<Softmax>();
const KernelEntry softmax_bwd = entry<SoftmaxBackward>();

}  // namespace spillway::ref
