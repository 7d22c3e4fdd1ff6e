// Convolution and its gradients, element by element: what runs where cuDNN has no engine, and on the host in tests.
// Weights lie as parameters do: [O, C/groups, kH, kW].
#pragma once
#include "cuda/kernels/linear.hpp"
#include "cuda/kernels/pool.hpp"
#include "ops/conv2d.hpp"

namespace spillway::cuda {

/// The output row whose window position k lies on this input row, or -1 when the view has none.
SPILLWAY_BOTH inline int64_t output_row(const WindowAxis& axis, int64_t row, int64_t k) {
  const int64_t distance = row + axis.pad - k * axis.dilation;
  if (distance < 0 || distance % axis.stride != 0) return -1;
  const int64_t out = distance / axis.stride;
  return out >= axis.out_lo && out < axis.out_lo + axis.out_size ? out : -1;
}

SPILLWAY_BOTH inline bool inside(const WindowAxis& axis, int64_t row) { return row >= 0 && row < axis.in_extent; }

/// Where the weight of output channel o (of all) and input channel i (of the group) at [ky, kx] lies.
struct Weights {
  float* data;
  int64_t per_group_in, height, width;
  Weights(const View& w, const ops::Conv2d& g) : data(floats(w)), per_group_in(g.group_in()), height(g.window.h.kernel), width(g.window.w.kernel) {}
  SPILLWAY_BOTH float& at(int64_t o, int64_t i, int64_t ky, int64_t kx) const { return data[((o * per_group_in + i) * height + ky) * width + kx]; }
};

template <>
struct Kernel<OpKind::conv2d> : LibraryKernel {
  static constexpr auto check = ops::check_conv2d;
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::Conv2d g = ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), c.ins[0], c.outs[0], c.ins[1]);
    const Image x(c.ins[0]);
    const Weights w(c.ins[1], g);
    const float* const bias = c.n_ins > 2 ? floats(c.ins[2]) : nullptr;
    const Window window = g.window;
    const int64_t in = g.group_in(), out = g.group_out();
    each_element(exec, c.outs[0], [=] SPILLWAY_BOTH(int64_t b, uint32_t o, int64_t oy, int64_t ox, float& y) {
      double sum = bias ? double(bias[o]) : 0.0;
      for (int64_t ky = 0; ky < w.height; ky++)
        for (int64_t kx = 0; kx < w.width; kx++) {
          const int64_t iy = window.h.start(oy) + ky * window.h.dilation, ix = window.w.start(ox) + kx * window.w.dilation;
          if (!inside(window.h, iy) || !inside(window.w, ix)) continue;
          const float* const pixel = x.at(b, iy, ix) + o / out * in;
          for (int64_t i = 0; i < in; i++) sum += double(pixel[i]) * double(w.at(o, i, ky, kx));
        }
      y = float(sum);
    });
  }
};

template <>
struct Kernel<OpKind::conv2d_bwd_data> : LibraryKernel {
  static constexpr auto check = ops::check_conv2d_bwd_data;
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::Conv2d g = ops::conv2d_geometry(Conv2dBwdDataAttrs::read(c.attrs), c.outs[0], c.ins[0], c.ins[1]);
    const Image dy(c.ins[0]);
    const Weights w(c.ins[1], g);
    const Window window = g.window;
    const int64_t in = g.group_in(), out = g.group_out();
    each_element(exec, c.outs[0], [=] SPILLWAY_BOTH(int64_t b, uint32_t i, int64_t iy, int64_t ix, float& dx) {
      const int64_t group = i / in, within = i % in;
      double sum = 0;
      for (int64_t ky = 0; ky < w.height; ky++)
        for (int64_t kx = 0; kx < w.width; kx++) {
          const int64_t oy = output_row(window.h, iy, ky), ox = output_row(window.w, ix, kx);
          if (oy < 0 || ox < 0) continue;
          const float* const pixel = dy.at(b, oy, ox) + group * out;
          for (int64_t o = 0; o < out; o++) sum += double(pixel[o]) * double(w.at(group * out + o, within, ky, kx));
        }
      dx = float(sum);
    });
  }
};

template <>
struct Kernel<OpKind::conv2d_bwd_weights> : LibraryKernel {
  static constexpr auto check = ops::check_conv2d_bwd_weights;
  static int64_t workspace(const KernelCall& c) {
    const int64_t weights = sums_bytes<1>(ops::pixels(c.ins[1]), ops::elements(c.outs[0]));
    return c.n_outs > 1 ? std::max(weights, bias_gradient_bytes(c.ins[1])) : weights;
  }
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::Conv2d g = ops::conv2d_geometry(Conv2dBwdWeightsAttrs::read(c.attrs), c.ins[0], c.ins[1], c.outs[0]);
    const Image x(c.ins[0]), dy(c.ins[1]);
    const Window window = g.window;
    const int64_t in = g.group_in(), out = g.group_out(), columns = ops::elements(c.outs[0]);
    const int64_t kernel_h = window.h.kernel, kernel_w = window.w.kernel;
    const double* const sums = sums_of<1>(exec, ops::pixels(c.ins[1]), columns, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t column, double* sum) {
      const int64_t kx = column % kernel_w, ky = column / kernel_w % kernel_h, i = column / (kernel_w * kernel_h) % in, o = column / (kernel_w * kernel_h * in);
      const Place p = Place::of(pixel, 1, dy.pixels.height, dy.pixels.width);
      const int64_t b = p.b + dy.b0, oy = p.h + dy.h0, ox = p.w + dy.w0;
      const int64_t iy = window.h.start(oy) + ky * window.h.dilation, ix = window.w.start(ox) + kx * window.w.dilation;
      if (inside(window.h, iy) && inside(window.w, ix)) sum[0] += double(x.at(b, iy, ix)[o / out * in + i]) * double(dy.at(b, oy, ox)[o]);
    });
    float* const dw = floats(c.outs[0]);
    exec.each(columns, [=] SPILLWAY_BOTH(uint32_t n) { dw[n] = float(sums[n]); });
    if (c.n_outs > 1) bias_gradient(exec, c.ins[1], c.outs[1], c.workspace);
  }
};

}  // namespace spillway::cuda
