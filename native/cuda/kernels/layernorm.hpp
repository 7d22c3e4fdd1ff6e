// Layer norm over the channels of each pixel, and its gradients. An item owns a pixel.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

/// What a pixel's channels are normalised by.
struct PixelMoments {
  double mean, rstd;
  template <class T>
  SPILLWAY_BOTH static PixelMoments of(const T* x, uint32_t channels, double eps) {
    double sum = 0, squares = 0;
    for (uint32_t c = 0; c < channels; c++) sum += double(x[c]);
    const double mean = sum / channels;
    for (uint32_t c = 0; c < channels; c++) squares += (double(x[c]) - mean) * (double(x[c]) - mean);
    return {mean, 1.0 / sqrt(squares / channels + eps)};
  }
};

template <>
struct Kernel<OpKind::layer_norm> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), y(c.outs[0]);
    const float *const gamma = floats(c.ins[1]), *const beta = floats(c.ins[2]);
    const double eps = LayerNormAttrs::read(c.attrs).eps;
    exec.each(ops::pixels(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const T* const from = x.at(pixel);
      T* const to = y.at(pixel);
      const PixelMoments m = PixelMoments::of(from, x.channels, eps);
      for (uint32_t ch = 0; ch < x.channels; ch++) to[ch] = float((double(from[ch]) - m.mean) * m.rstd * double(gamma[ch]) + double(beta[ch]));
    });
  }
};

template <>
struct Kernel<OpKind::layer_norm_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    const float* const gamma = floats(c.ins[2]);
    const double eps = LayerNormBwdDataAttrs::read(c.attrs).eps;
    exec.each(ops::pixels(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const T *const value = x.at(pixel), *const gradient = dy.at(pixel);
      T* const to = dx.at(pixel);
      const PixelMoments m = PixelMoments::of(value, x.channels, eps);
      double plain = 0, products = 0;
      for (uint32_t ch = 0; ch < x.channels; ch++) {
        const double g = double(gamma[ch]) * double(gradient[ch]);
        plain += g;
        products += g * (double(value[ch]) - m.mean) * m.rstd;
      }
      for (uint32_t ch = 0; ch < x.channels; ch++) {
        const double normal = (double(value[ch]) - m.mean) * m.rstd;
        to[ch] = float(m.rstd * (double(gamma[ch]) * double(gradient[ch]) - (plain + normal * products) / x.channels));
      }
    });
  }
};

template <>
struct Kernel<OpKind::layer_norm_bwd_weights> : OwnKernel {
  static int64_t moments_bytes(const KernelCall& c) { return ops::pixels(c.ins[0]) * int64_t(sizeof(PixelMoments)); }
  static int64_t workspace(const KernelCall& c) { return moments_bytes(c) + sums_bytes<2>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dy(c.ins[1]);
    const double eps = LayerNormBwdWeightsAttrs::read(c.attrs).eps;
    PixelMoments* const moments = static_cast<PixelMoments*>(c.workspace);
    exec.each(ops::pixels(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t pixel) { moments[pixel] = PixelMoments::of(x.at(pixel), x.channels, eps); });
    const int64_t channels = c.ins[0].dims[1];
    void* const scratch = static_cast<char*>(c.workspace) + moments_bytes(c);
    const double* const sums = sums_of<2>(exec, ops::pixels(c.ins[0]), channels, scratch, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch, double* sum) {
      const double gradient = double(dy.at(pixel)[ch]);
      sum[0] += gradient * (double(x.at(pixel)[ch]) - moments[pixel].mean) * moments[pixel].rstd;
      sum[1] += gradient;
    });
    float *const dgamma = floats(c.outs[0]), *const dbeta = floats(c.outs[1]);
    exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) {
      dgamma[ch] = float(sums[ch]);
      dbeta[ch] = float(sums[channels + ch]);
    });
  }
};

}  // namespace spillway::cuda
