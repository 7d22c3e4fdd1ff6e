// The parts of global response normalisation, and their gradients.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

/// A column for each image and channel; the terms are the image's pixels.
template <>
struct Kernel<OpKind::square_sums> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    const View& v = c.ins[0];
    return sums_bytes<1>(v.dims[2] * v.dims[3], v.dims[0] * v.dims[1]);
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& v = c.ins[0];
    const PixelsOf<T> x(v);
    const Pixels s(c.outs[0]);
    const int64_t columns = v.dims[0] * v.dims[1];
    const auto term = [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t column, double* sum) {
      const double value = double(float(x.at(column / x.channels, pixel / x.width, pixel % x.width)[column % x.channels]));
      sum[0] += value * value;
    };
    sum_terms<1>(exec, v.dims[2] * v.dims[3], columns, c.workspace, term,
                 [=] SPILLWAY_BOTH(uint32_t i, const double* sum) { s.at(i / x.channels, 0, 0)[i % x.channels] = float(sum[0]); });
  }
};

template <>
struct Kernel<OpKind::square_sums_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dx(c.outs[0]);
    const Pixels ds(c.ins[1]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place p = Place::of(i, dx.channels, dx.height, dx.width);
      dx.at(p.b, p.h, p.w)[p.c] = 2.0f * float(x.at(p.b, p.h, p.w)[p.c]) * ds.at(p.b, 0, 0)[p.c];
    });
  }
};

/// The mean root of a pixel's channels, plus eps.
SPILLWAY_BOTH inline double mean_root(const float* s, uint32_t channels, double eps) {
  double sum = 0;
  for (uint32_t c = 0; c < channels; c++) sum += sqrt(double(s[c]));
  return sum / double(channels) + eps;
}

template <>
struct Kernel<OpKind::response> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels s(c.ins[0]), f(c.outs[0]);
    const float* const gamma = floats(c.ins[1]);
    const double eps = ResponseAttrs::read(c.attrs).eps;
    exec.each(ops::pixels(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const float* const sums = s.at(pixel);
      const double mean = mean_root(sums, s.channels, eps);
      for (uint32_t ch = 0; ch < s.channels; ch++) f.at(pixel)[ch] = float(1 + double(gamma[ch]) * sqrt(double(sums[ch])) / mean);
    });
  }
};

template <>
struct Kernel<OpKind::response_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels s(c.ins[0]), df(c.ins[1]), ds(c.outs[0]);
    const float* const gamma = floats(c.ins[2]);
    const double eps = ResponseBwdDataAttrs::read(c.attrs).eps;
    exec.each(ops::pixels(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const float *const sums = s.at(pixel), *const slopes = df.at(pixel);
      const double mean = mean_root(sums, s.channels, eps);
      double shared = 0;
      for (uint32_t ch = 0; ch < s.channels; ch++) shared += double(gamma[ch]) * double(slopes[ch]) * sqrt(double(sums[ch]));
      shared /= double(s.channels) * mean;
      for (uint32_t ch = 0; ch < s.channels; ch++)
        ds.at(pixel)[ch] =
            sums[ch] == 0 ? 0.0f : float((double(gamma[ch]) * double(slopes[ch]) - shared) / (2 * mean * sqrt(double(sums[ch]))));
    });
  }
};

template <>
struct Kernel<OpKind::response_bwd_weights> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels s(c.ins[0]), df(c.ins[1]);
    float* const dgamma = floats(c.outs[0]);
    const double eps = ResponseBwdWeightsAttrs::read(c.attrs).eps;
    const uint32_t pixels = uint32_t(ops::pixels(c.ins[0]));
    exec.each(c.ins[0].dims[1], [=] SPILLWAY_BOTH(uint32_t ch) {
      double sum = 0;
      for (uint32_t pixel = 0; pixel < pixels; pixel++)
        sum += double(df.at(pixel)[ch]) * sqrt(double(s.at(pixel)[ch])) / mean_root(s.at(pixel), s.channels, eps);
      dgamma[ch] = float(sum);
    });
  }
};

}  // namespace spillway::cuda
