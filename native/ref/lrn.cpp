// Local response normalisation and its gradient, by the formulas: every divisor is computed where it is read.
#include "ops/lrn.hpp"

#include <cmath>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

template <class T>
double divisor(const LrnAttrs& a, const Tensor<T>& x, int64_t channels, int64_t b, int64_t c, int64_t h, int64_t w) {
  const ops::Channels window = ops::lrn_window(a, c, channels);
  double sum = 0;
  for (int64_t i = window.lo; i < window.hi; i++) sum += double(x.global(b, i, h, w)) * double(x.global(b, i, h, w));
  return a.k + a.alpha / double(a.size) * sum;
}

struct Lrn {
  template <class T>
  static void run(const KernelCall& c) {
    const LrnAttrs a = LrnAttrs::read(c.attrs);
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      y.global(b, ch, h, w) = T(double(x.global(b, ch, h, w)) * std::pow(divisor(a, x, c.ins[0].dims[1], b, ch, h, w), -a.beta));
    });
  }
};

struct LrnBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const LrnAttrs a = LrnAttrs::read(c.attrs);
    const int64_t channels = c.ins[0].dims[1];
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const ops::Channels readers = ops::lrn_readers(a, ch, channels);
      double sum = 0;
      for (int64_t i = readers.lo; i < readers.hi; i++)
        sum += double(dy.global(b, i, h, w)) * double(x.global(b, i, h, w)) * std::pow(divisor(a, x, channels, b, i, h, w), -a.beta - 1);
      const double own = double(dy.global(b, ch, h, w)) * std::pow(divisor(a, x, channels, b, ch, h, w), -a.beta);
      dx.global(b, ch, h, w) = T(own - 2 * a.alpha * a.beta / double(a.size) * double(x.global(b, ch, h, w)) * sum);
    });
  }
};

}  // namespace

const KernelEntry lrn = entry<Lrn>();
const KernelEntry lrn_bwd = entry<LrnBackward>();

}  // namespace spillway::ref
