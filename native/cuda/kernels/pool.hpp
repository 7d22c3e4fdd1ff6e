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
  Divider by_stride;
  explicit Windows(const WindowAxis& a)
      : kernel(int32_t(a.kernel)),
        stride(int32_t(a.stride)),
        pad(int32_t(a.pad)),
        in_extent(int32_t(a.in_extent)),
        out_lo(int32_t(a.out_lo)),
        out_end(int32_t(a.out_lo + a.out_size)),
        by_stride(uint32_t(a.stride)) {}
  SPILLWAY_BOTH int32_t start(int32_t out) const { return out * stride - pad; }
  /// As ops::pool_span.
  SPILLWAY_BOTH Rows of(int32_t out) const {
    const int32_t first = start(out), end = first + kernel;
    return {first > 0 ? first : 0, end < in_extent ? end : in_extent};
  }
  /// The output rows of the view whose windows reach this input row.
  SPILLWAY_BOTH Rows reaching(int32_t row) const {
    const int32_t past = row + pad - kernel + 1;
    const int32_t first = past > 0 ? divided(past + stride - 1) : 0, end = divided(row + pad) + 1;
    return {first > out_lo ? first : out_lo, end < out_end ? end : out_end};
  }

 private:
  SPILLWAY_BOTH int32_t divided(int32_t n) const { return int32_t(by_stride.of(uint32_t(n))); }
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

/// body.of<LANES>(b, c, h, w, values) makes the values of LANES channels side by side, from c on, of each pixel of a box, by places in the
/// whole value. `wide`: everything that the body reads can be had 16 bytes at a time.
template <class T, int LANES, class Exec, class Body>
void each_lanes(Exec& exec, const View& view, Body body) {
  const ImageOf<T> y(view);
  const uint32_t groups = y.pixels.channels / LANES, width = y.pixels.width, height = y.pixels.height;
  const Divider by_groups(groups), by_width(width), by_height(height);
  exec.each(ops::elements(view) / LANES, [=] SPILLWAY_BOTH(uint32_t i) {
    const uint32_t pixel = by_groups.of(i), row = by_width.of(pixel), image = by_height.of(row);
    const Place p{image, i - pixel * groups, row - image * height, pixel - row * width};
    const uint32_t c = p.c * LANES;
    float values[LANES];
    body.template of<LANES>(int32_t(p.b) + y.b0, c, int32_t(p.h) + y.h0, int32_t(p.w) + y.w0, values);
    put<LANES>(y.pixels.at(p.b, p.h, p.w) + c, values);
  });
}
template <class T, class Exec, class Body>
void each_pixel(Exec& exec, const View& view, bool wide, Body body) {
  if (wide && has_wide_pixels<T>(view))
    each_lanes<T, Wide<T>::LANES>(exec, view, body);
  else
    each_lanes<T, 1>(exec, view, body);
}

/// Each element of dx is a sum: share.add<LANES>(b, c, h, w, oy, ox, sum) adds the terms of each window (oy, ox) that reaches
/// it.
template <class Share>
struct SumOfWindows {
  WindowsOf windows;
  Share share;
  template <int LANES>
  SPILLWAY_BOTH void of(int32_t b, uint32_t c, int32_t h, int32_t w, float (&sum)[LANES]) const {
    const Rows rows = windows.h.reaching(h), columns = windows.w.reaching(w);
    for (float& lane : sum) lane = 0;
    for (int32_t oy = rows.lo; oy < rows.hi; oy++)
      for (int32_t ox = columns.lo; ox < columns.hi; ox++) share.template add<LANES>(b, c, h, w, oy, ox, sum);
  }
};
template <class T, class Exec, class Share>
void sum_windows(Exec& exec, const View& dx, bool wide, const WindowsOf& windows, Share share) {
  each_pixel<T>(exec, dx, wide, SumOfWindows<Share>{windows, share});
}

/// A pixel's place in its window, padding included.
SPILLWAY_BOTH inline uint32_t place_in(const WindowsOf& window, int32_t oy, int32_t ox, int32_t h, int32_t w) {
  return uint32_t((h - window.h.start(oy)) * window.w.kernel + (w - window.w.start(ox)));
}

template <int LANES>
struct Maxima {
  float value[LANES];
  uint32_t place[LANES];
};

/// The first maximum of a window in row order; a NaN counts as the maximum.
template <int LANES, class T>
SPILLWAY_BOTH Maxima<LANES> window_maxima(const ImageOf<T>& x, const WindowsOf& windows, int32_t b, uint32_t c, int32_t oy, int32_t ox) {
  const Rows rows = windows.h.of(oy), columns = windows.w.of(ox);
  Maxima<LANES> best;
  for (int lane = 0; lane < LANES; lane++) {
    best.value[lane] = -INFINITY;
    best.place[lane] = place_in(windows, oy, ox, rows.lo, columns.lo);
  }
  for (int32_t h = rows.lo; h < rows.hi; h++) {
    const uint32_t row = place_in(windows, oy, ox, h, 0);
    for (int32_t w = columns.lo; w < columns.hi; w++) {
      const uint32_t place = row + uint32_t(w);
      float values[LANES];
      fetch<LANES>(x.at(b, h, w) + c, values);
      for (int lane = 0; lane < LANES; lane++)
        if (values[lane] > best.value[lane] || values[lane] != values[lane]) {
          best.value[lane] = values[lane];
          best.place[lane] = place;
        }
    }
  }
  return best;
}

template <class T>
struct MaximumOfWindow {
  ImageOf<T> x;
  WindowsOf window;
  template <int LANES>
  SPILLWAY_BOTH void of(int32_t b, uint32_t c, int32_t oy, int32_t ox, float (&y)[LANES]) const {
    const Maxima<LANES> best = window_maxima<LANES>(x, window, b, c, oy, ox);
    for (int lane = 0; lane < LANES; lane++) y[lane] = best.value[lane];
  }
};

template <>
struct Kernel<OpKind::max_pool> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const WindowsOf window(ops::pool_window(MaxPoolAttrs::read(call.attrs), call.ins[0], call.outs[0]));
    each_pixel<T>(exec, call.outs[0], has_wide_pixels<T>(call.ins[0]), MaximumOfWindow<T>{ImageOf<T>(call.ins[0]), window});
  }
};

template <class T>
struct ShareOfMaximum {
  ImageOf<T> x, dy;
  WindowsOf window;
  template <int LANES>
  SPILLWAY_BOTH void add(int32_t b, uint32_t c, int32_t h, int32_t w, int32_t oy, int32_t ox, float (&sum)[LANES]) const {
    const Maxima<LANES> best = window_maxima<LANES>(x, window, b, c, oy, ox);
    const uint32_t here = place_in(window, oy, ox, h, w);
    float values[LANES];
    fetch<LANES>(dy.at(b, oy, ox) + c, values);
    for (int lane = 0; lane < LANES; lane++) sum[lane] += best.place[lane] == here ? values[lane] : 0.0f;
  }
};

template <>
struct Kernel<OpKind::max_pool_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const WindowsOf window(ops::pool_window(MaxPoolBwdAttrs::read(call.attrs), call.ins[0], call.ins[1]));
    const ShareOfMaximum<T> share{ImageOf<T>(call.ins[0]), ImageOf<T>(call.ins[1]), window};
    // The maxima of eight channels do not go into registers.
    if constexpr (Wide<T>::LANES > 4)
      each_lanes<T, 1>(exec, call.outs[0], SumOfWindows<ShareOfMaximum<T>>{window, share});
    else
      sum_windows<T>(exec, call.outs[0], has_wide_pixels<T>(call.ins[0]) && has_wide_pixels<T>(call.ins[1]), window, share);
  }
};

/// Places of maxima, a byte each, four channels to a word: an item makes the words of the channels that it reads at once.
template <class T, int LANES, class Exec>
void put_places(Exec& exec, const View& x_view, const View& y_view, const WindowsOf& window) {
  constexpr uint32_t WORDS = LANES > 4 ? LANES / 4 : 1;
  const ImageOf<T> x(x_view);
  const ImageOf<uint32_t> places(y_view);
  exec.each(ops::elements(y_view) / WORDS, [=] SPILLWAY_BOTH(uint32_t i) {
    const Place p = Place::of(i, places.pixels.channels / WORDS, places.pixels.height, places.pixels.width);
    const int32_t b = int32_t(p.b) + places.b0, oy = int32_t(p.h) + places.h0, ox = int32_t(p.w) + places.w0;
    const uint32_t word = p.c * WORDS;
    uint32_t packed[WORDS] = {};
    for (uint32_t k = 0; k < 4 * WORDS && 4 * word + k < x.pixels.channels; k += LANES) {
      const Maxima<LANES> best = window_maxima<LANES>(x, window, b, 4 * word + k, oy, ox);
      for (uint32_t lane = 0; lane < LANES; lane++) packed[(k + lane) / 4] |= best.place[lane] << (8 * ((k + lane) % 4));
    }
    for (uint32_t k = 0; k < WORDS; k++) places.pixels.at(p.b, p.h, p.w)[word + k] = packed[k];
  });
}

template <>
struct Kernel<OpKind::max_pool_places> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const WindowsOf window(ops::pool_window(MaxPoolPlacesAttrs::read(call.attrs), call.ins[0], call.outs[0]));
    if (has_wide_pixels<T>(call.ins[0]))
      put_places<T, Wide<T>::LANES>(exec, call.ins[0], call.outs[0], window);
    else
      put_places<T, 1>(exec, call.ins[0], call.outs[0], window);
  }
};

template <class T>
struct ShareOfPlace {
  ImageOf<uint32_t> places;
  ImageOf<T> dy;
  WindowsOf window;
  template <int LANES>
  SPILLWAY_BOTH void add(int32_t b, uint32_t c, int32_t h, int32_t w, int32_t oy, int32_t ox, float (&sum)[LANES]) const {
    const uint32_t here = place_in(window, oy, ox, h, w), first = LANES == 1 ? c % 4 : 0;  // of the word's bytes
    const uint32_t* const words = places.at(b, oy, ox) + c / 4;
    float values[LANES];
    fetch<LANES>(dy.at(b, oy, ox) + c, values);
    for (uint32_t lane = 0; lane < LANES; lane++)
      sum[lane] += (words[lane / 4] >> (8 * (first + lane % 4)) & 0xff) == here ? values[lane] : 0.0f;
  }
};

template <>
struct Kernel<OpKind::max_pool_places_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const WindowsOf window(ops::pool_window(MaxPoolPlacesBwdAttrs::read(call.attrs), call.outs[0], call.ins[1]));
    sum_windows<T>(exec, call.outs[0], has_wide_pixels<T>(call.ins[1]), window,
                   ShareOfPlace<T>{ImageOf<uint32_t>(call.ins[0]), ImageOf<T>(call.ins[1]), window});
  }
};

/// The divisor of an average.
struct Divisor {
  WindowsOf window;
  int32_t pad_bottom, pad_right;
  bool padding;
  template <class Attrs>
  Divisor(const Attrs& a, const Window& window_)
      : window(window_), pad_bottom(int32_t(a.pad_bottom)), pad_right(int32_t(a.pad_right)), padding(a.count_include_pad != 0) {}
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

template <class T>
struct AverageOfWindow {
  ImageOf<T> x;
  Divisor divisor;
  template <int LANES>
  SPILLWAY_BOTH void of(int32_t b, uint32_t c, int32_t oy, int32_t ox, float (&y)[LANES]) const {
    const Rows rows = divisor.window.h.of(oy), columns = divisor.window.w.of(ox);
    float sum[LANES] = {}, values[LANES];
    for (int32_t h = rows.lo; h < rows.hi; h++)
      for (int32_t w = columns.lo; w < columns.hi; w++) {
        fetch<LANES>(x.at(b, h, w) + c, values);
        for (int lane = 0; lane < LANES; lane++) sum[lane] += values[lane];
      }
    const float share = divisor.share(oy, ox);
    for (int lane = 0; lane < LANES; lane++) y[lane] = sum[lane] * share;
  }
};

template <>
struct Kernel<OpKind::avg_pool> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const auto a = AvgPoolAttrs::read(call.attrs);
    const Divisor divisor(a, ops::pool_window(a, call.ins[0], call.outs[0]));
    each_pixel<T>(exec, call.outs[0], has_wide_pixels<T>(call.ins[0]), AverageOfWindow<T>{ImageOf<T>(call.ins[0]), divisor});
  }
};

template <class T>
struct ShareOfAverage {
  ImageOf<T> dy;
  Divisor divisor;
  template <int LANES>
  SPILLWAY_BOTH void add(int32_t b, uint32_t c, int32_t, int32_t, int32_t oy, int32_t ox, float (&sum)[LANES]) const {
    float values[LANES];
    fetch<LANES>(dy.at(b, oy, ox) + c, values);
    const float share = divisor.share(oy, ox);
    for (int lane = 0; lane < LANES; lane++) sum[lane] += values[lane] * share;
  }
};

template <>
struct Kernel<OpKind::avg_pool_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const auto a = AvgPoolBwdAttrs::read(call.attrs);
    const Divisor divisor(a, ops::pool_window(a, call.outs[0], call.ins[0]));
    sum_windows<T>(exec, call.outs[0], has_wide_pixels<T>(call.ins[0]), divisor.window,
                   ShareOfAverage<T>{ImageOf<T>(call.ins[0]), divisor});
  }
};

template <>
struct Kernel<OpKind::global_avg_pool> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    return sums_bytes<1>(c.ins[0].dims[2] * c.ins[0].dims[3], c.ins[0].dims[0] * c.ins[0].dims[1]);
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const PixelsOf<T> x(call.ins[0]);
    const Pixels y(call.outs[0]);  // floats: tiles add to it
    const View& v = call.ins[0];
    const double count = double(GlobalAvgPoolAttrs::read(call.attrs).count);
    const auto term = [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t column, double* sum) {
      sum[0] += double(x.at(column / x.channels, pixel / x.width, pixel % x.width)[column % x.channels]);
    };
    sum_terms<1>(exec, v.dims[2] * v.dims[3], v.dims[0] * v.dims[1], call.workspace, term,
                 [=] SPILLWAY_BOTH(uint32_t i, const double* sum) { y.at(i / y.channels, 0, 0)[i % y.channels] = float(sum[0] / count); });
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
