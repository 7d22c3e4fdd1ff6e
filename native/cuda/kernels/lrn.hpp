// Local response normalisation and its gradient, by the formulas: every divisor is computed where it is read.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/lrn.hpp"

namespace spillway::cuda {

/// The divisor of a channel of one pixel.
struct Divisors {
  LrnAttrs a;
  int64_t channels;
  SPILLWAY_BOTH double at(const float* pixel, int64_t c) const {
    const ops::Channels window = ops::lrn_window(a, c, channels);
    double sum = 0;
    for (int64_t i = window.lo; i < window.hi; i++) sum += double(pixel[i]) * double(pixel[i]);
    return a.k + a.alpha / double(a.size) * sum;
  }
};

template <>
struct Kernel<OpKind::lrn> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]), y(c.outs[0]);
    const Divisors d{LrnAttrs::read(c.attrs), c.ins[0].dims[1]};
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const uint32_t pixel = i / y.channels, ch = i % y.channels;
      y.at(pixel)[ch] = float(double(x.at(pixel)[ch]) * pow(d.at(x.at(pixel), ch), -d.a.beta));
    });
  }
};

template <>
struct Kernel<OpKind::lrn_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    const Divisors d{LrnAttrs::read(c.attrs), c.ins[0].dims[1]};
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const uint32_t pixel = i / dx.channels, ch = i % dx.channels;
      const float *const value = x.at(pixel), *const gradient = dy.at(pixel);
      const ops::Channels readers = ops::lrn_readers(d.a, ch, d.channels);
      double sum = 0;
      for (int64_t k = readers.lo; k < readers.hi; k++) sum += double(gradient[k]) * double(value[k]) * pow(d.at(value, k), -d.a.beta - 1);
      const double own = double(gradient[ch]) * pow(d.at(value, ch), -d.a.beta);
      dx.at(pixel)[ch] = float(own - 2 * d.a.alpha * d.a.beta / double(d.a.size) * double(value[ch]) * sum);
    });
  }
};

}  // namespace spillway::cuda
