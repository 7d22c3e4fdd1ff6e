// Softmax cross-entropy (per image and per pixel) and mean squared error, each with its gradient. Losses add up in double.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/loss.hpp"

namespace spillway::cuda {

/// Labels of the pixels of x, whatever their strides.
struct Labels {
  const int32_t* data;
  uint32_t height, width;
  int64_t stride_b, stride_h, stride_w;
  explicit Labels(const View& v)
      : data(static_cast<const int32_t*>(v.data)), height(uint32_t(v.dims[2])), width(uint32_t(v.dims[3])),
        stride_b(v.strides[0]), stride_h(v.strides[2]), stride_w(v.strides[3]) {}
  SPILLWAY_BOTH int32_t at(uint32_t pixel) const {
    const uint32_t w = pixel % width, row = pixel / width;
    return data[row / height * stride_b + row % height * stride_h + w * stride_w];
  }
};

/// Softmax of one pixel's channels: exp(x - top) / total.
struct Softmax {
  float top;
  double total;
  SPILLWAY_BOTH static Softmax of(const float* x, uint32_t channels) {
    Softmax s{-INFINITY, 0};
    for (uint32_t c = 0; c < channels; c++) s.top = x[c] > s.top ? x[c] : s.top;
    for (uint32_t c = 0; c < channels; c++) s.total += double(expf(x[c] - s.top));
    return s;
  }
};

/// Σ term over the pixels, over count, into the loss.
template <class Exec, class Term>
void sum_loss(Exec& exec, const KernelCall& c, double count, Term term) {
  const double* const sum = sums_of<1>(exec, ops::pixels(c.ins[0]), 1, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t, double* total) { total[0] += term(pixel); });
  float* const loss = floats(c.outs[0]);
  exec.each(1, [=] SPILLWAY_BOTH(uint32_t) { loss[0] = float(sum[0] / count); });
}

struct LossKernel : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(ops::pixels(c.ins[0]), 1); }
};

template <>
struct Kernel<OpKind::softmax_xent> : LossKernel {
  static constexpr auto check = ops::check_softmax_xent;
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]);
    const Labels labels(c.ins[1]);
    sum_loss(exec, c, double(SoftmaxXentAttrs::read(c.attrs).count), [=] SPILLWAY_BOTH(uint32_t pixel) -> double {
      const int32_t label = labels.at(pixel);
      if (label < 0 || uint32_t(label) >= x.channels) return 0;
      const float* const values = x.at(pixel);
      const Softmax s = Softmax::of(values, x.channels);
      return double(s.top) + log(s.total) - double(values[label]);
    });
  }
};

template <>
struct Kernel<OpKind::softmax_xent_bwd> : OwnKernel {
  static constexpr auto check = ops::check_softmax_xent_bwd;
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]), dx(c.outs[0]);
    const Labels labels(c.ins[1]);
    const double count = double(SoftmaxXentBwdAttrs::read(c.attrs).count);
    exec.each(ops::pixels(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const int32_t label = labels.at(pixel);
      const bool named = label >= 0 && uint32_t(label) < x.channels;
      const float* const values = x.at(pixel);
      const Softmax s = Softmax::of(values, named ? x.channels : 0);
      float* const gradient = dx.at(pixel);
      for (uint32_t ch = 0; ch < x.channels; ch++)
        gradient[ch] = named ? float((double(expf(values[ch] - s.top)) / s.total - (ch == uint32_t(label) ? 1 : 0)) / count) : 0.0f;
    });
  }
};

template <>
struct Kernel<OpKind::mse> : LossKernel {
  static constexpr auto check = ops::check_mse;
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]), target(c.ins[1]);
    sum_loss(exec, c, double(MseAttrs::read(c.attrs).count), [=] SPILLWAY_BOTH(uint32_t pixel) -> double {
      const float *const a = x.at(pixel), *const b = target.at(pixel);
      double sum = 0;
      for (uint32_t ch = 0; ch < x.channels; ch++) sum += (double(a[ch]) - double(b[ch])) * (double(a[ch]) - double(b[ch]));
      return sum;
    });
  }
};

template <>
struct Kernel<OpKind::mse_bwd> : OwnKernel {
  static constexpr auto check = ops::check_mse_bwd;
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float scale = float(2.0 / double(MseBwdAttrs::read(c.attrs).count));
    map<2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]}, [=] SPILLWAY_BOTH(const float* v, uint32_t) { return scale * (v[0] - v[1]); });
  }
};

}  // namespace spillway::cuda
