// Max, average and global average pooling with their gradients, window by window in whole-value coordinates.
#include <cmath>
#include <limits>

#include "ops/pool.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

using ops::Span;
using ops::Window;

struct Pixel {
  int64_t h, w;
};

/// Calls f(h, w) for the image pixels of one window, in row order.
template <class F>
void each_in_window(const Window& window, int64_t oy, int64_t ox, F f) {
  const Span rows = ops::pool_span(window.h, oy), columns = ops::pool_span(window.w, ox);
  for (int64_t h = rows.lo; h < rows.hi; h++)
    for (int64_t w = columns.lo; w < columns.hi; w++) f(h, w);
}

template <class T>
void zero(const View& v) {
  const Tensor<T> t(v);
  each_element(v, [&](int64_t b, int64_t c, int64_t h, int64_t w) { t.global(b, c, h, w) = T(0); });
}

/// The value and place of a window's maximum: the first one in row order; a NaN counts as the maximum.
template <class T>
std::pair<double, Pixel> window_maximum(const Tensor<T>& x, const Window& window, int64_t b, int64_t c, int64_t oy, int64_t ox) {
  double best = -std::numeric_limits<double>::infinity();
  Pixel place{ops::pool_span(window.h, oy).lo, ops::pool_span(window.w, ox).lo};
  each_in_window(window, oy, ox, [&](int64_t h, int64_t w) {
    const double value = double(x.global(b, c, h, w));
    if (value > best || std::isnan(value)) {
      best = value;
      place = {h, w};
    }
  });
  return {best, place};
}

struct MaxPool {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const Window window = ops::pool_window(MaxPoolAttrs::read(c.attrs), c.ins[0], c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      y.global(b, ch, oy, ox) = T(window_maximum(x, window, b, ch, oy, ox).first);
    });
  }
};

struct MaxPoolBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    const Window window = ops::pool_window(MaxPoolBwdAttrs::read(c.attrs), c.ins[0], c.ins[1]);
    zero<T>(c.outs[0]);
    each_element(c.ins[1], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      if (ops::pool_span(window.h, oy).size() == 0 || ops::pool_span(window.w, ox).size() == 0) return;
      const Pixel place = window_maximum(x, window, b, ch, oy, ox).second;
      dx.global(b, ch, place.h, place.w) += dy.global(b, ch, oy, ox);
    });
  }
};

/// A pixel's place in its window, padding included.
int64_t place_in(const Window& window, int64_t oy, int64_t ox, Pixel p) {
  return (p.h - window.h.start(oy)) * window.w.kernel + (p.w - window.w.start(ox));
}

struct MaxPoolPlaces {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]);
    const Tensor<int32_t> places(c.outs[0]);
    const Window window = ops::pool_window(MaxPoolPlacesAttrs::read(c.attrs), c.ins[0], c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t word, int64_t oy, int64_t ox) {
      uint32_t packed = 0;
      for (int64_t k = 0; k < 4 && 4 * word + k < c.ins[0].dims[1]; k++) {
        const Pixel maximum = window_maximum(x, window, b, c.ins[0].origin[1] + 4 * word + k, oy, ox).second;
        packed |= uint32_t(place_in(window, oy, ox, maximum)) << (8 * k);
      }
      places.global(b, word, oy, ox) = int32_t(packed);
    });
  }
};

struct MaxPoolPlacesBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<int32_t> places(c.ins[0]);
    const Tensor<T> dy(c.ins[1]), dx(c.outs[0]);
    const Window window = ops::pool_window(MaxPoolPlacesBwdAttrs::read(c.attrs), c.outs[0], c.ins[1]);
    zero<T>(c.outs[0]);
    each_element(c.ins[1], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      const int64_t local = ch - c.ins[1].origin[1];
      const uint32_t place = uint32_t(places.global(b, local / 4, oy, ox)) >> (8 * (local % 4)) & 0xff;
      each_in_window(window, oy, ox, [&](int64_t h, int64_t w) {
        if (place_in(window, oy, ox, {h, w}) == int64_t(place)) dx.global(b, ch, h, w) += dy.global(b, ch, oy, ox);
      });
    });
  }
};

template <class Attrs>
double divisor(const Attrs& a, const Window& window, int64_t oy, int64_t ox) {
  const bool padding = a.count_include_pad != 0;
  return double(ops::pool_divisor(window.h, oy, a.pad_bottom, padding)) * double(ops::pool_divisor(window.w, ox, a.pad_right, padding));
}

struct AvgPool {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AvgPoolAttrs::read(c.attrs);
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const Window window = ops::pool_window(a, c.ins[0], c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      double sum = 0;
      each_in_window(window, oy, ox, [&](int64_t h, int64_t w) { sum += double(x.global(b, ch, h, w)); });
      y.global(b, ch, oy, ox) = T(sum / divisor(a, window, oy, ox));
    });
  }
};

struct AvgPoolBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AvgPoolBwdAttrs::read(c.attrs);
    const Tensor<T> dy(c.ins[0]), dx(c.outs[0]);
    const Window window = ops::pool_window(a, c.outs[0], c.ins[0]);
    zero<T>(c.outs[0]);
    each_element(c.ins[0], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      const double share = double(dy.global(b, ch, oy, ox)) / divisor(a, window, oy, ox);
      each_in_window(window, oy, ox, [&](int64_t h, int64_t w) {
        T& gradient = dx.global(b, ch, h, w);
        gradient = T(double(gradient) + share);
      });
    });
  }
};

struct GlobalAvgPool {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const double count = double(GlobalAvgPoolAttrs::read(c.attrs).count);
    for (int64_t b = 0; b < c.ins[0].dims[0]; b++)
      for (int64_t ch = 0; ch < c.ins[0].dims[1]; ch++) {
        double sum = 0;
        for (int64_t h = 0; h < c.ins[0].dims[2]; h++)
          for (int64_t w = 0; w < c.ins[0].dims[3]; w++) sum += double(x.at(b, ch, h, w));
        y.at(b, ch, 0, 0) = T(sum / count);
      }
  }
};

struct GlobalAvgPoolBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), dx(c.outs[0]);
    const double count = double(GlobalAvgPoolBwdAttrs::read(c.attrs).count);
    for (int64_t b = 0; b < c.outs[0].dims[0]; b++)
      for (int64_t ch = 0; ch < c.outs[0].dims[1]; ch++)
        for (int64_t h = 0; h < c.outs[0].dims[2]; h++)
          for (int64_t w = 0; w < c.outs[0].dims[3]; w++) dx.at(b, ch, h, w) = T(double(dy.at(b, ch, 0, 0)) / count);
  }
};

}  // namespace

const KernelEntry max_pool = entry<MaxPool>();
const KernelEntry max_pool_bwd = entry<MaxPoolBackward>();
const KernelEntry max_pool_places = entry<MaxPoolPlaces>();
const KernelEntry max_pool_places_bwd = entry<MaxPoolPlacesBackward>();
const KernelEntry avg_pool = entry<AvgPool>();
const KernelEntry avg_pool_bwd = entry<AvgPoolBackward>();
const KernelEntry global_avg_pool = entry<GlobalAvgPool>();
const KernelEntry global_avg_pool_bwd = entry<GlobalAvgPoolBackward>();

}  // namespace spillway::ref
