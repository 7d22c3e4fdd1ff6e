// The three directions of a convolution between a src (windows slide over it) and a dst (one pixel for each window), element by
// element. It runs if cuDNN has no engine, and on the host in tests. conv2d reads src and writes dst, conv_transpose2d the other way
// round. Weights have the layout of parameters, [dst channels, src channels/groups, kH, kW], or are laid out. Elements outside a view
// are zero.
#pragma once
#include "cuda/kernels/linear.hpp"
#include "cuda/kernels/pool.hpp"
#include "ops/conv2d.hpp"

namespace spillway::cuda {

/// The dst row whose window position k lies on this src row, or -1 when the view has none.
SPILLWAY_BOTH inline int64_t dst_row(const WindowAxis& axis, int64_t row, int64_t k) {
  const int64_t distance = row + axis.pad - k * axis.dilation;
  if (distance < 0 || distance % axis.stride != 0) return -1;
  const int64_t out = distance / axis.stride;
  return out >= axis.out_lo && out < axis.out_lo + axis.out_size ? out : -1;
}

SPILLWAY_BOTH inline bool held(const WindowAxis& axis, int64_t row) { return row >= axis.in_lo && row < axis.in_lo + axis.in_size; }

/// The data of a convolution for a work item. Weights count in the stored type of activations.
template <class T>
struct Taps {
  Window window;
  int64_t group_in, group_out;
  const void* weights;
  bool laid;

  Taps(const ops::Conv2d& g, const View& w)
      : window(g.window), group_in(g.group_in()), group_out(g.group_out()), weights(w.data), laid(ops::comes_laid(w)) {}
  /// o is counted in all channels, i within its group.
  SPILLWAY_BOTH float weight(int64_t o, int64_t i, int64_t ky, int64_t kx) const {
    if (laid) return float(static_cast<const T*>(weights)[((o * window.h.kernel + ky) * window.w.kernel + kx) * group_in + i]);
    return as_stored<T>(static_cast<const float*>(weights)[((o * group_in + i) * window.h.kernel + ky) * window.w.kernel + kx]);
  }
  SPILLWAY_BOTH int64_t row(int64_t oy, int64_t ky) const { return window.h.start(oy) + ky * window.h.dilation; }
  SPILLWAY_BOTH int64_t column(int64_t ox, int64_t kx) const { return window.w.start(ox) + kx * window.w.dilation; }
};

/// dst = conv(src) + bias, and what is not above zero times `slope` (1: nothing is rectified).
template <class T, class Exec>
void convolve(Exec& exec, const ops::Conv2d& g, const View& src_view, const View& w, const View& dst_view, const View* bias_view,
              float slope = 1) {
  const ImageOf<T> src(src_view);
  const Taps<T> t(g, w);
  const float* const bias = bias_view ? floats(*bias_view) : nullptr;
  each_element<T>(exec, dst_view, [=] SPILLWAY_BOTH(int64_t b, uint32_t o, int64_t oy, int64_t ox, T & into) {
    double sum = bias ? double(bias[o]) : 0.0;
    for (int64_t ky = 0; ky < t.window.h.kernel; ky++)
      for (int64_t kx = 0; kx < t.window.w.kernel; kx++) {
        const int64_t iy = t.row(oy, ky), ix = t.column(ox, kx);
        if (!held(t.window.h, iy) || !held(t.window.w, ix)) continue;
        const T* const pixel = src.at(b, iy, ix) + o / t.group_out * t.group_in;
        for (int64_t i = 0; i < t.group_in; i++) sum += double(pixel[i]) * double(t.weight(o, i, ky, kx));
      }
    into = rectify(float(sum), slope);
  });
}

/// src = the transpose of conv, applied to dst, + bias.
template <class T, class Exec>
void convolve_transposed(Exec& exec, const ops::Conv2d& g, const View& dst_view, const View& w, const View& src_view,
                         const View* bias_view) {
  const ImageOf<T> dst(dst_view);
  const Taps<T> t(g, w);
  const float* const bias = bias_view ? floats(*bias_view) : nullptr;
  each_element<T>(exec, src_view, [=] SPILLWAY_BOTH(int64_t b, uint32_t channel, int64_t iy, int64_t ix, T & into) {
    const int64_t group = channel / t.group_in, i = channel % t.group_in;
    double sum = bias ? double(bias[channel]) : 0.0;
    for (int64_t ky = 0; ky < t.window.h.kernel; ky++)
      for (int64_t kx = 0; kx < t.window.w.kernel; kx++) {
        const int64_t oy = dst_row(t.window.h, iy, ky), ox = dst_row(t.window.w, ix, kx);
        if (oy < 0 || ox < 0) continue;
        const T* const pixel = dst.at(b, oy, ox) + group * t.group_out;
        for (int64_t o = 0; o < t.group_out; o++) sum += double(pixel[o]) * double(t.weight(group * t.group_out + o, i, ky, kx));
      }
    into = float(sum);
  });
}

inline int64_t correlate_bytes(const View& dst, const View& dw) { return sums_bytes<1>(ops::pixels(dst), ops::elements(dw)); }

/// dw = the sum over dst pixels of dst times the window of src.
template <class T, class Exec>
void correlate(Exec& exec, const ops::Conv2d& g, const View& src_view, const View& dst_view, const View& dw_view, void* scratch) {
  const ImageOf<T> src(src_view), dst(dst_view);
  const Taps<T> t(g, dw_view);
  const int64_t columns = ops::elements(dw_view), kernel_h = g.window.h.kernel, kernel_w = g.window.w.kernel;
  const double* const sums =
      sums_of<1>(exec, ops::pixels(dst_view), columns, scratch, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t column, double* sum) {
        const int64_t kx = column % kernel_w, ky = column / kernel_w % kernel_h, i = column / (kernel_w * kernel_h) % t.group_in;
        const int64_t o = column / (kernel_w * kernel_h * t.group_in);
        const Place p = Place::of(pixel, 1, dst.pixels.height, dst.pixels.width);
        const int64_t b = p.b + dst.b0, oy = p.h + dst.h0, ox = p.w + dst.w0, iy = t.row(oy, ky), ix = t.column(ox, kx);
        if (held(t.window.h, iy) && held(t.window.w, ix))
          sum[0] += double(src.at(b, iy, ix)[o / t.group_out * t.group_in + i]) * double(dst.at(b, oy, ox)[o]);
      });
  float* const dw = floats(dw_view);
  exec.each(columns, [=] SPILLWAY_BOTH(uint32_t n) { dw[n] = float(sums[n]); });
}

/// Scratch of a weight gradient: the sums of the weights, then those of the bias.
inline int64_t weights_gradient_bytes(const KernelCall& c, const View& dst) {
  const int64_t weights = correlate_bytes(dst, c.outs[0]);
  return c.n_outs > 1 ? std::max(weights, bias_gradient_bytes(c.ins[1])) : weights;
}

}  // namespace spillway::cuda
