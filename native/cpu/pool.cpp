// Max, average and global average pooling. The backwards gather by stripes of dx.
#include "ops/pool.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"
#include "cpu/stripes.hpp"
#include "cpu/tile_product.hpp"
#include "cpu/zeros.hpp"

namespace spillway::cpu {
namespace {

using ops::Span;
using ops::Window;
using ops::WindowAxis;

/// Calls f(b, oy, ox) for each output pixel, output places in whole-value coordinates. `outside`: pixels that are left out, or null.
template <class F>
void each_output(const View& y, F f, const Outside* outside = nullptr) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < y.dims[0] * y.dims[2]; row++)
    each_inside(outside, y, row, y.dims[3], [&](Columns columns) {
      for (int64_t w = columns.from; w < columns.to; w++) f(row / y.dims[2], y.origin[2] + row % y.dims[2], y.origin[3] + w);
    });
}

/// The output rows whose windows reach into these input rows.
Rows outputs_reaching(const WindowAxis& axis, Rows rows) {
  const int64_t above = rows.lo + axis.pad - axis.kernel;  // a window that starts here or before ends before lo
  const int64_t first = above < 0 ? 0 : above / axis.stride + 1, last = (rows.hi - 1 + axis.pad) / axis.stride;
  return {std::max(axis.out_lo, first), std::min(axis.out_lo + axis.out_size, last + 1)};
}

Span overlap(Span a, Rows b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

/// A pixel's place in its window: counted row by row, padding included, so that it is the same in every tile.
int32_t place_in(const Window& window, int64_t oy, int64_t ox, int64_t h, int64_t w) {
  return int32_t((h - window.h.start(oy)) * window.w.kernel + (w - window.w.start(ox)));
}

/// Values and places of the maxima of one window's channels.
struct Maxima {
  float value[lanes];
  int32_t place[lanes];

  /// The first maximum wins; a NaN counts as the maximum.
  template <class T>
  void find(const View& x, const Window& window, int64_t b, int64_t oy, int64_t ox, int64_t first, int64_t count) {
    const Span rows = ops::pool_span(window.h, oy), columns = ops::pool_span(window.w, ox);
    std::fill_n(value, count, -std::numeric_limits<float>::infinity());
    std::fill_n(place, count, place_in(window, oy, ox, rows.lo, columns.lo));
    for (int64_t h = rows.lo; h < rows.hi; h++)
      for (int64_t w = columns.lo; w < columns.hi; w++) {
        const int32_t position = place_in(window, oy, ox, h, w);
        const T* pixel = at_image<T>(x, b, h, w) + first;
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
          const float here = float(pixel[c]);
          const bool wins = here > value[c] || here != here;
          value[c] = wins ? here : value[c];
          place[c] = wins ? position : place[c];
        }
      }
  }
};

struct MaxPool : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const Window window = ops::pool_window(MaxPoolAttrs::read(c.attrs), x, y);
    each_output(
        y,
        [&](int64_t b, int64_t oy, int64_t ox) {
          const Span rows = ops::pool_span(window.h, oy), columns = ops::pool_span(window.w, ox);
          each_lane_group(y.dims[1], [&](int64_t first, int64_t count) {
            float most[lanes];
            std::fill_n(most, count, -std::numeric_limits<float>::infinity());
            for (int64_t h = rows.lo; h < rows.hi; h++)
              for (int64_t w = columns.lo; w < columns.hi; w++) {
                const T* pixel = at_image<T>(x, b, h, w) + first;
#pragma omp simd
                for (int64_t ch = 0; ch < count; ch++) {
                  const float here = float(pixel[ch]);
                  most[ch] = here > most[ch] || here != here ? here : most[ch];
                }
              }
            store(most, at_image<T>(y, b, oy, ox) + first, count);
          });
        },
        outside_of(c));
  }
};

/// Adds each dy to the pixel at its place; places_of(b, oy, ox, first, count, f) calls f(the places of these channels).
template <class T, class PlacesOf>
void scatter_to_maxima(const KernelCall& c, const View& dy, const Window& window, PlacesOf places_of) {
  const auto reaching = [&](Rows rows) { return outputs_reaching(window.h, rows); };
  gather_stripes(c.outs[0], dy, c.workspace, reaching, [&](const View& dx, int64_t b, int64_t oy, int64_t ox, Rows stripe) {
    const Span mine = overlap(ops::pool_span(window.h, oy), stripe), columns = ops::pool_span(window.w, ox);
    each_lane_group(dy.dims[1], [&](int64_t first, int64_t count) {
      const T* const gradient = at_image<T>(dy, b, oy, ox) + first;
      if (seeks_zeros(c) && all_zero(gradient, count)) return;
      places_of(b, oy, ox, first, count, [&](const auto* places) {
        for (int64_t h = mine.lo; h < mine.hi; h++)
          for (int64_t w = columns.lo; w < columns.hi; w++) {
            const int32_t position = place_in(window, oy, ox, h, w);
            float* pixel = at_image(dx, b, h, w) + first;
#pragma omp simd
            for (int64_t ch = 0; ch < count; ch++) pixel[ch] += places[ch] == position ? float(gradient[ch]) : 0.0f;
          }
      });
    });
  });
}

struct MaxPoolBackward : GatheringKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &dy = c.ins[1];
    const Window window = ops::pool_window(MaxPoolBwdAttrs::read(c.attrs), x, dy);
    scatter_to_maxima<T>(c, dy, window, [&](int64_t b, int64_t oy, int64_t ox, int64_t first, int64_t count, auto scatter) {
      Maxima maxima;
      maxima.find<T>(x, window, b, oy, ox, first, count);
      scatter(maxima.place);
    });
  }
};

/// Words hold their bytes with the lowest channel first.
static_assert(std::endian::native == std::endian::little);
uint8_t* places_at(const View& places, int64_t b, int64_t oy, int64_t ox) {
  return reinterpret_cast<uint8_t*>(at_image<int32_t>(places, b, oy, ox));
}

struct MaxPoolPlaces : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &places = c.outs[0];
    const Window window = ops::pool_window(MaxPoolPlacesAttrs::read(c.attrs), x, places);
    const int64_t channels = x.dims[1], bytes = 4 * places.dims[1];
    each_output(places, [&](int64_t b, int64_t oy, int64_t ox) {
      uint8_t* const out = places_at(places, b, oy, ox);
      each_lane_group(channels, [&](int64_t first, int64_t count) {
        Maxima maxima;
        maxima.find<T>(x, window, b, oy, ox, first, count);
#pragma omp simd
        for (int64_t ch = 0; ch < count; ch++) out[first + ch] = uint8_t(maxima.place[ch]);
      });
      std::fill(out + channels, out + bytes, uint8_t(0));
    });
  }
};

struct MaxPoolPlacesBackward : GatheringKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &places = c.ins[0], &dy = c.ins[1];
    const Window window = ops::pool_window(MaxPoolPlacesBwdAttrs::read(c.attrs), c.outs[0], dy);
    scatter_to_maxima<T>(c, dy, window, [&](int64_t b, int64_t oy, int64_t ox, int64_t first, int64_t, auto scatter) {
      scatter(places_at(places, b, oy, ox) + first);
    });
  }
};

/// One over the pixels that an output pixel averages.
template <class Attrs>
float share_of(const Attrs& a, const Window& window, int64_t oy, int64_t ox) {
  const bool padding = a.count_include_pad != 0;
  return float(1.0 / (double(ops::pool_divisor(window.h, oy, a.pad_bottom, padding)) *
                      double(ops::pool_divisor(window.w, ox, a.pad_right, padding))));
}

struct AvgPool : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const auto a = AvgPoolAttrs::read(c.attrs);
    const Window window = ops::pool_window(a, x, y);
    each_output(y, [&](int64_t b, int64_t oy, int64_t ox) {
      const Span rows = ops::pool_span(window.h, oy), columns = ops::pool_span(window.w, ox);
      const float share = share_of(a, window, oy, ox);
      each_lane_group(y.dims[1], [&](int64_t first, int64_t count) {
        float sum[lanes] = {};
        for (int64_t h = rows.lo; h < rows.hi; h++)
          for (int64_t w = columns.lo; w < columns.hi; w++) {
            const T* pixel = at_image<T>(x, b, h, w) + first;
#pragma omp simd
            for (int64_t ch = 0; ch < count; ch++) sum[ch] += float(pixel[ch]);
          }
#pragma omp simd
        for (int64_t ch = 0; ch < count; ch++) sum[ch] *= share;
        store(sum, at_image<T>(y, b, oy, ox) + first, count);
      });
    });
  }
};

struct AvgPoolBackward : GatheringKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View& dy = c.ins[0];
    const auto a = AvgPoolBwdAttrs::read(c.attrs);
    const Window window = ops::pool_window(a, c.outs[0], dy);
    const auto reaching = [&](Rows rows) { return outputs_reaching(window.h, rows); };
    gather_stripes(c.outs[0], dy, c.workspace, reaching, [&](const View& dx, int64_t b, int64_t oy, int64_t ox, Rows stripe) {
      const Span mine = overlap(ops::pool_span(window.h, oy), stripe), columns = ops::pool_span(window.w, ox);
      const float share = share_of(a, window, oy, ox);
      const T* gradient = at_image<T>(dy, b, oy, ox);
      for (int64_t h = mine.lo; h < mine.hi; h++)
        for (int64_t w = columns.lo; w < columns.hi; w++) {
          float* pixel = at_image(dx, b, h, w);
#pragma omp simd
          for (int64_t ch = 0; ch < dx.dims[1]; ch++) pixel[ch] += float(gradient[ch]) * share;
        }
    });
  }
};

/// A thread owns some channels of one image and sums its pixels in order, in double.
struct GlobalAvgPool : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    constexpr int64_t most = 2048;
    const View &x = c.ins[0], &y = c.outs[0];
    // Long runs of memory, if there are enough images for all threads.
    const int64_t parts = over(use_threads(), x.dims[0]), group = std::min(most, rounded_up(over(x.dims[1], parts), block_width));
    const double count = double(GlobalAvgPoolAttrs::read(c.attrs).count);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t first = 0; first < x.dims[1]; first += group) {
        const int64_t channels = std::min(group, x.dims[1] - first);
        double sum[most];
        std::fill_n(sum, channels, 0.0);
        for (int64_t h = 0; h < x.dims[2]; h++)
          for (int64_t w = 0; w < x.dims[3]; w++) {
            const T* const pixel = pixel_of<T>(x, b, h, w) + first;
            each_block(0, channels, [&]<class V>(V, int64_t ch) { add_to(sum + ch, load_as<V>(pixel + ch)); });
          }
        for (int64_t ch = 0; ch < channels; ch++) pixel_of(y, b, 0, 0)[first + ch] = float(sum[ch] / count);
      }
  }
};

struct GlobalAvgPoolBackward : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &dy = c.ins[0], &dx = c.outs[0];
    const float share = float(1.0 / double(GlobalAvgPoolBwdAttrs::read(c.attrs).count));
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < dx.dims[0]; b++)
      for (int64_t h = 0; h < dx.dims[2]; h++)
        for (int64_t w = 0; w < dx.dims[3]; w++) {
          const float* gradient = pixel_of(dy, b, 0, 0);
          T* pixel = pixel_of<T>(dx, b, h, w);
          each_lane_group(dx.dims[1], [&](int64_t first, int64_t count) {
            float shares[lanes];
#pragma omp simd
            for (int64_t ch = 0; ch < count; ch++) shares[ch] = gradient[first + ch] * share;
            store(shares, pixel + first, count);
          });
        }
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

}  // namespace spillway::cpu
