// Softmax cross-entropy (per image and per pixel) and the losses that compare element by element, each with its gradient.
// Sums are in double.
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
  SPILLWAY_BOTH int64_t place(uint32_t pixel) const {
    const uint32_t w = pixel % width, row = pixel / width;
    return row / height * stride_b + row % height * stride_h + w * stride_w;
  }
  SPILLWAY_BOTH int32_t at(uint32_t pixel) const { return data[place(pixel)]; }
};

/// Softmax of one pixel's channels: exp(x - top) / total.
struct Softmax {
  float top;
  double total;
  template <class T>
  SPILLWAY_BOTH static Softmax of(const T* x, uint32_t channels) {
    Softmax s{-INFINITY, 0};
    for (uint32_t c = 0; c < channels; c++) s.top = x[c] > s.top ? float(x[c]) : s.top;
    for (uint32_t c = 0; c < channels; c++) s.total += double(expf(x[c] - s.top));
    return s;
  }
};

/// Σ term over the pixels, times scale(), into the loss.
template <class Exec, class Scale, class Term>
void sum_loss(Exec& exec, const KernelCall& c, Scale scale, Term term) {
  const double* const sum = sums_of<1>(exec, ops::pixels(c.ins[0]), 1, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t, double* total) { total[0] += term(pixel); });
  float* const loss = floats(c.outs[0]);
  exec.each(1, [=] SPILLWAY_BOTH(uint32_t) { loss[0] = float(sum[0] * scale()); });
}

struct LossKernel : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(ops::pixels(c.ins[0]), 1); }
};

template <>
struct Kernel<OpKind::count_labels> : LossKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Labels labels(c.ins[0]);
    const int64_t ignored = CountLabelsAttrs::read(c.attrs).ignore_index;
    const double* const sum = sums_of<1>(exec, ops::pixels(c.ins[0]), 1, c.workspace,
                                         [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t, double* total) { total[0] += labels.at(pixel) != ignored; });
    float* const counted = floats(c.outs[0]);
    exec.each(1, [=] SPILLWAY_BOTH(uint32_t) {
      counted[0] = float(fmod(sum[0], ops::COUNT_PIECE));
      counted[1] = float(floor(sum[0] / ops::COUNT_PIECE));
    });
  }
};

template <>
struct Kernel<OpKind::softmax_xent> : LossKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]);
    const Labels labels(c.ins[1]);
    const ops::Xent<float> xent(c);
    sum_loss(exec, c, [=] SPILLWAY_BOTH() { return xent.scale(); }, [=] SPILLWAY_BOTH(uint32_t pixel) -> double {
      const int32_t label = labels.at(pixel);
      if (!xent.takes(label, x.channels)) return 0;
      const T* const values = x.at(pixel);
      const Softmax s = Softmax::of(values, x.channels);
      return double(s.top) + log(s.total) - double(values[label]);
    });
  }
};

template <>
struct Kernel<OpKind::softmax_xent_counted> : Kernel<OpKind::softmax_xent> {};

template <>
struct Kernel<OpKind::softmax_xent_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dx(c.outs[0]);
    const Labels labels(c.ins[1]);
    const ops::Xent<float> xent(c);
    exec.each(ops::pixels(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const int32_t label = labels.at(pixel);
      const bool named = xent.takes(label, x.channels);
      const double scale = xent.scale();
      const T* const values = x.at(pixel);
      const Softmax s = Softmax::of(values, named ? x.channels : 0);
      T* const gradient = dx.at(pixel);
      for (uint32_t ch = 0; ch < x.channels; ch++)
        gradient[ch] = named ? float((double(expf(values[ch] - s.top)) / s.total - (ch == uint32_t(label) ? 1 : 0)) * scale) : 0.0f;
    });
  }
};

template <>
struct Kernel<OpKind::softmax_xent_counted_bwd> : Kernel<OpKind::softmax_xent_bwd> {};

/// The target's element, or the constant that stands for it.
struct Target {
  Pixels pixels;
  bool given;
  double constant;
  Target(const KernelCall& c, double constant_) : pixels(c.ins[c.n_ins > 1 ? 1 : 0]), given(c.n_ins > 1), constant(constant_) {}
  SPILLWAY_BOTH double at(uint32_t pixel, uint32_t c) const { return given ? double(pixels.at(pixel)[c]) : constant; }
};

template <class Loss>
struct ElementLoss : LossKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = ops::ElementLossAttrs::read(c.attrs);
    const Loss loss = ops::loss_of<Loss>(c.attrs);
    const PixelsOf<T> x(c.ins[0]);
    const Target target(c, a.constant);
    const double scale = a.weight / double(a.count);
    sum_loss(exec, c, [=] SPILLWAY_BOTH() { return scale; }, [=] SPILLWAY_BOTH(uint32_t pixel) -> double {
      double sum = 0;
      for (uint32_t ch = 0; ch < x.channels; ch++) sum += loss.value(double(x.at(pixel)[ch]), target.at(pixel, ch));
      return sum;
    });
  }
};

template <class Loss>
struct ElementLossBackward : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = ops::ElementLossAttrs::read(c.attrs);
    const Loss loss = ops::loss_of<Loss>(c.attrs);
    const PixelsOf<T> x(c.ins[0]), dx(c.outs[0]);
    const Target target(c, a.constant);
    const double scale = a.weight / double(a.count);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const uint32_t pixel = i / dx.channels, ch = i % dx.channels;
      dx.at(pixel)[ch] = float(scale * loss.slope(double(x.at(pixel)[ch]), target.at(pixel, ch)));
    });
  }
};

#define SPILLWAY_LOSS_KERNEL(kind)                                        \
  template <>                                                             \
  struct Kernel<OpKind::kind> : ElementLoss<ops::element_loss::kind> {}; \
  template <>                                                             \
  struct Kernel<OpKind::kind##_bwd> : ElementLossBackward<ops::element_loss::kind> {};
SPILLWAY_ELEMENT_LOSSES(SPILLWAY_LOSS_KERNEL)
#undef SPILLWAY_LOSS_KERNEL

}  // namespace spillway::cuda
