// Max, average and global average pooling. Gradients gather: an item owns a pixel of dx and looks at the windows that reach
// it, so that nothing is added by two at once.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/pool.hpp"

namespace spillway::cuda {

using ops::Window;
using ops::WindowAxis;

/// Rows [lo, hi).
struct Rows {
  int32_t lo, hi;
};

/// Windows along one axis, in 32 bits, which places in a whole value fit (check_call): 64 take twice the registers.
struct Windows {
  int32_t kernel, stride, pad, in_extent, out_lo, out_end;
  explicit Windows(const WindowAxis& a)
      : kernel(int32_t(a.kernel)), stride(int32_t(a.stride)), pad(int32_t(a.pad)), in_extent(int32_t(a.in_extent)), out_lo(int32_t(a.out_lo)), out_end(int32_t(a.out_lo + a.out_size)) {}
  SPILLWAY_BOTH int32_t start(int32_t out) const { return out * stride - pad; }
  /// As ops::pool_span.
  SPILLWAY_BOTH Rows of(int32_t out) const {
    const int32_t first = start(out), end = first + kernel;
    return {first > 0 ? first : 0, end < in_extent ? end : in_extent};
  }
  /// The output rows of the view whose windows reach this input row.
  SPILLWAY_BOTH Rows reaching(int32_t row) const {
    const int32_t past = row + pad - kernel + 1;
    const int32_t first = past > 0 ? (past + stride - 1) / stride : 0, end = (row + pad) / stride + 1;
    return {first > out_lo ? first : out_lo, end < out_end ? end : out_end};
  }
};

struct WindowsOf {
  Windows h, w;
  explicit WindowsOf(const Window& window) : h(window.h), w(window.w) {}
};

/// A box whose pixels are named by their place in the whole value.
template <class T>
struct ImageOf {
  PixelsOf<T> pixels;
  int32_t b0, h0, w0;
  explicit ImageOf(const View& v) : pixels(v), b0(int32_t(v.origin[0])), h0(int32_t(v.origin[2])), w0(int32_t(v.origin[3])) {}
  SPILLWAY_BOTH T* at(int32_t b, int32_t h, int32_t w) const { return pixels.at(b - b0, h - h0, w - w0); }
};

/// Calls f(b, c, h, w, pixel of y) for each element of a box, by places in the whole value.
template <class T, class Exec, class F>
void each_element(Exec& exec, const View& view, F f) {
  const ImageOf<T> y(view);
  exec.each(ops::elements(view), [=] SPILLWAY_BOTH(uint32_t i) {
    const Place p = Place::of(i, y.pixels.channels, y.pixels.height, y.pixels.width);
    f(int32_t(p.b) + y.b0, p.c, int32_t(p.h) + y.h0, int32_t(p.w) + y.w0, y.pixels.at(p.b, p.h, p.w)[p.c]);
  });
}

/// Each element of dx is the sum of share(b, c, h, w, oy, ox) over the windows (oy, ox) that reach it.
template <class T, class Exec, class F>
void sum_windows(Exec& exec, const View& dx_view, const WindowsOf& windows, F share) {
  each_element<T>(exec, dx_view, [=] SPILLWAY_BOTH(int32_t b, uint32_t c, int32_t h, int32_t w, T& dx) {
    const Rows rows = windows.h.reaching(h), columns = windows.w.reaching(w);
    float sum = 0;
    for (int32_t oy = rows.lo; oy < rows.hi; oy++)
      for (int32_t ox = columns.lo; ox < columns.hi; ox++) sum += share(b, c, h, w, oy, ox);
    dx = sum;
  });
}

struct Maximum {
  float value;
  int32_t h, w;
};

/// The first maximum of a window in row order; a NaN counts as the maximum.
template <class T>
SPILLWAY_BOTH Maximum window_maximum(const ImageOf<T>& x, const WindowsOf& windows, int32_t b, uint32_t c, int32_t oy, int32_t ox) {
  const Rows rows = windows.h.of(oy), columns = windows.w.of(ox);
  Maximum best{-INFINITY, rows.lo, columns.lo};
  for (int32_t h = rows.lo; h < rows.hi; h++)
    for (int32_t w = columns.lo; w < columns.hi; w++) {
      const float value = x.at(b, h, w)[c];
      if (value > best.value || value != value) best = {value, h, w};
    }
  return best;
}

template <>
struct Kernel<OpKind::max_pool> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const ImageOf<T> x(call.ins[0]);
    const WindowsOf window(ops::pool_window(MaxPoolAttrs::read(call.attrs), call.ins[0], call.outs[0]));
    each_element<T>(exec, call.outs[0], [=] SPILLWAY_BOTH(int32_t b, uint32_t c, int32_t oy, int32_t ox, T& y) { y = window_maximum(x, window, b, c, oy, ox).value; });
  }
};

template <>
struct Kernel<OpKind::max_pool_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const ImageOf<T> x(call.ins[0]), dy(call.ins[1]);
    const WindowsOf window(ops::pool_window(MaxPoolBwdAttrs::read(call.attrs), call.ins[0], call.ins[1]));
    sum_windows<T>(exec, call.outs[0], window, [=] SPILLWAY_BOTH(int32_t b, uint32_t c, int32_t h, int32_t w, int32_t oy, int32_t ox) {
      const Maximum best = window_maximum(x, window, b, c, oy, ox);
      return best.h == h && best.w == w ? float(dy.at(b, oy, ox)[c]) : 0.0f;
    });
  }
};

/// A pixel's place in its window, padding included.
SPILLWAY_BOTH inline uint32_t place_in(const WindowsOf& window, int32_t oy, int32_t ox, int32_t h, int32_t w) {
  return uint32_t((h - window.h.start(oy)) * window.w.kernel + (w - window.w.start(ox)));
}

/// Places of maxima, a byte each, four channels to a word.
template <>
struct Kernel<OpKind::max_pool_places> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const ImageOf<T> x(call.ins[0]);
    const WindowsOf window(ops::pool_window(MaxPoolPlacesAttrs::read(call.attrs), call.ins[0], call.outs[0]));
    each_element<uint32_t>(exec, call.outs[0], [=] SPILLWAY_BOTH(int32_t b, uint32_t word, int32_t oy, int32_t ox, uint32_t& places) {
      uint32_t packed = 0;
      for (uint32_t k = 0; k < 4 && 4 * word + k < x.pixels.channels; k++) {
        const Maximum best = window_maximum(x, window, b, 4 * word + k, oy, ox);
        packed |= place_in(window, oy, ox, best.h, best.w) << (8 * k);
      }
      places = packed;
    });
  }
};

template <>
struct Kernel<OpKind::max_pool_places_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const ImageOf<uint32_t> places(call.ins[0]);
    const ImageOf<T> dy(call.ins[1]);
    const WindowsOf window(ops::pool_window(MaxPoolPlacesBwdAttrs::read(call.attrs), call.outs[0], call.ins[1]));
    sum_windows<T>(exec, call.outs[0], window, [=] SPILLWAY_BOTH(int32_t b, uint32_t c, int32_t h, int32_t w, int32_t oy, int32_t ox) {
      return (places.at(b, oy, ox)[c / 4] >> (8 * (c % 4)) & 0xff) == place_in(window, oy, ox, h, w) ? float(dy.at(b, oy, ox)[c]) : 0.0f;
    });
  }
};

/// What an average is divided by.
struct Divisor {
  WindowsOf window;
  int32_t pad_bottom, pad_right;
  bool padding;
  template <class Attrs>
  Divisor(const Attrs& a, const Window& window_) : window(window_), pad_bottom(int32_t(a.pad_bottom)), pad_right(int32_t(a.pad_right)), padding(a.count_include_pad != 0) {}
  SPILLWAY_BOTH float share(int32_t oy, int32_t ox) const {
    return float(1.0 / (double(pixels(window.h, oy, pad_bottom)) * double(pixels(window.w, ox, pad_right))));
  }

 private:
  /// As ops::pool_divisor.
  SPILLWAY_BOTH int32_t pixels(const Windows& axis, int32_t out, int32_t pad_after) const {
    const Rows rows = axis.of(out);
    const int32_t start = axis.start(out), end = start + axis.kernel, most = axis.in_extent + pad_after;
    const int32_t n = padding ? (end < most ? end : most) - start : rows.hi - rows.lo;
    return n > 1 ? n : 1;
  }
};

template <>
struct Kernel<OpKind::avg_pool> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const ImageOf<T> x(call.ins[0]);
    const auto a = AvgPoolAttrs::read(call.attrs);
    const Divisor divisor(a, ops::pool_window(a, call.ins[0], call.outs[0]));
    each_element<T>(exec, call.outs[0], [=] SPILLWAY_BOTH(int32_t b, uint32_t c, int32_t oy, int32_t ox, T& y) {
      const Rows rows = divisor.window.h.of(oy), columns = divisor.window.w.of(ox);
      float sum = 0;
      for (int32_t h = rows.lo; h < rows.hi; h++)
        for (int32_t w = columns.lo; w < columns.hi; w++) sum += x.at(b, h, w)[c];
      y = sum * divisor.share(oy, ox);
    });
  }
};

template <>
struct Kernel<OpKind::avg_pool_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const ImageOf<T> dy(call.ins[0]);
    const auto a = AvgPoolBwdAttrs::read(call.attrs);
    const Divisor divisor(a, ops::pool_window(a, call.outs[0], call.ins[0]));
    sum_windows<T>(exec, call.outs[0], divisor.window, [=] SPILLWAY_BOTH(int32_t b, uint32_t c, int32_t, int32_t, int32_t oy, int32_t ox) {
      return dy.at(b, oy, ox)[c] * divisor.share(oy, ox);
    });
  }
};

template <>
struct Kernel<OpKind::global_avg_pool> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(c.ins[0].dims[2] * c.ins[0].dims[3], c.ins[0].dims[0] * c.ins[0].dims[1]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const PixelsOf<T> x(call.ins[0]);
    const Pixels y(call.outs[0]);  // floats: tiles add to it
    const View& v = call.ins[0];
    const double count = double(GlobalAvgPoolAttrs::read(call.attrs).count);
    const double* const sums = sums_of<1>(exec, v.dims[2] * v.dims[3], v.dims[0] * v.dims[1], call.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t column, double* sum) {
      sum[0] += double(x.at(column / x.channels, pixel / x.width, pixel % x.width)[column % x.channels]);
    });
    exec.each(v.dims[0] * v.dims[1], [=] SPILLWAY_BOTH(uint32_t i) { y.at(i / y.channels, 0, 0)[i % y.channels] = float(sums[i] / count); });
  }
};

template <>
struct Kernel<OpKind::global_avg_pool_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const Pixels dy(call.ins[0]);
    const PixelsOf<T> dx(call.outs[0]);
    const float share = float(1.0 / double(GlobalAvgPoolBwdAttrs::read(call.attrs).count));
    exec.each(ops::elements(call.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place p = Place::of(i, dx.channels, dx.height, dx.width);
      dx.at(p.b, p.h, p.w)[p.c] = dy.at(p.b, 0, 0)[p.c] * share;
    });
  }
};

}  // namespace spillway::cuda
