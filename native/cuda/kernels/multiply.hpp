// Products of tensors (the second may have one value for many elements), products of a tensor and a parameter, and their gradients.
#pragma once
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

/// A factor in the box of x: its single elements are repeated.
template <class T>
struct Factor {
  const T* data;
  int64_t strides[4];
  Factor(const View& s, const View& x) : data(static_cast<const T*>(s.data)) {
    for (int d = 0; d < 4; d++) strides[d] = s.dims[d] == 1 && x.dims[d] != 1 ? 0 : s.strides[d];
  }
  SPILLWAY_BOTH float at(const Place& p) const { return data[p.b * strides[0] + p.c * strides[1] + p.h * strides[2] + p.w * strides[3]]; }
};

struct MultiplyKernel : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View &x_view = c.ins[0], &s = c.ins[1], &y_view = c.outs[0];
    if (ops::same_dims(x_view, s))
      return map<T, 2>(exec, y_view, {&x_view, &s}, [=] SPILLWAY_BOTH(const float* v, uint32_t) { return v[0] * v[1]; });
    const PixelsOf<T> x(x_view), y(y_view);
    const Factor<T> factor(s, x_view);
    exec.each(ops::elements(y_view), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place p = Place::of(i, y.channels, y.height, y.width);
      y.at(p.b, p.h, p.w)[p.c] = float(x.at(p.b, p.h, p.w)[p.c]) * factor.at(p);
    });
  }
};

struct ScaleKernel : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float* const gamma = floats(c.ins[1]);
    map<T, 1>(exec, c.outs[0], {&c.ins[0]}, [=] SPILLWAY_BOTH(const float* v, uint32_t channel) { return v[0] * gamma[channel]; });
  }
};

template <>
struct Kernel<OpKind::multiply> : MultiplyKernel {};
template <>
struct Kernel<OpKind::multiply_bwd_data> : MultiplyKernel {};
template <>
struct Kernel<OpKind::scale> : ScaleKernel {};
template <>
struct Kernel<OpKind::scale_bwd_data> : ScaleKernel {};

/// A column for each image and channel; the terms are the image's pixels.
template <>
struct Kernel<OpKind::multiply_bwd_space> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    const View& v = c.ins[0];
    return sums_bytes<1>(v.dims[2] * v.dims[3], v.dims[0] * v.dims[1]);
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& v = c.ins[0];
    const PixelsOf<T> x(v), dy(c.ins[1]);
    const Pixels ds(c.outs[0]);
    const int64_t columns = v.dims[0] * v.dims[1];
    const auto term = [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t column, double* sum) {
      const uint32_t b = column / x.channels, ch = column % x.channels, h = pixel / x.width, w = pixel % x.width;
      sum[0] += double(x.at(b, h, w)[ch]) * double(dy.at(b, h, w)[ch]);
    };
    sum_terms<1>(exec, v.dims[2] * v.dims[3], columns, c.workspace, term,
                 [=] SPILLWAY_BOTH(uint32_t i, const double* sum) { ds.at(i / x.channels, 0, 0)[i % x.channels] = float(sum[0]); });
  }
};

template <>
struct Kernel<OpKind::multiply_bwd_channels> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dy(c.ins[1]);
    const Pixels ds(c.outs[0]);
    exec.each(ops::pixels(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const T *const value = x.at(pixel), *const gradient = dy.at(pixel);
      double total = 0;
      for (uint32_t ch = 0; ch < x.channels; ch++) total += double(value[ch]) * double(gradient[ch]);
      *ds.at(pixel) = float(total);
    });
  }
};

template <>
struct Kernel<OpKind::scale_bwd_weights> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dy(c.ins[1]);
    float* const dgamma = floats(c.outs[0]);
    const int64_t channels = c.ins[0].dims[1];
    sum_terms<1>(
        exec, ops::pixels(c.ins[0]), channels, c.workspace,
        [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch, double* sum) { sum[0] += double(x.at(pixel)[ch]) * double(dy.at(pixel)[ch]); },
        [=] SPILLWAY_BOTH(uint32_t ch, const double* sum) { dgamma[ch] = float(sum[0]); });
  }
};

}  // namespace spillway::cuda
