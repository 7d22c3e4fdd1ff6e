// Conversions between our values and those of a library: grids of pixels cut from a view (with zeros outside) and put back; weights
// between [O, C, kH, kW] and [O, kH, kW, C] (of a call, or many at once, once a step); a bias for every pixel, with an optional
// rectifier.
#pragma once
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

/// Rows [row, row + rows) along H and columns along W of a view, counted in the view. Pixels outside of it are
/// zero.
struct Grid {
  int64_t row, rows, column, columns;
};

/// `into` (dense, channels-last) becomes that part of x.
template <class T, class Exec>
void gather(Exec& exec, const View& x_view, const Grid& grid, T* into) {
  const PixelsOf<T> x(x_view);
  const int64_t height = x_view.dims[2], width = x_view.dims[3];
  const Grid g = grid;
  exec.each(x_view.dims[0] * g.rows * g.columns * x_view.dims[1], [=] SPILLWAY_BOTH(uint32_t i) {
    const Place p = Place::of(i, x.channels, uint32_t(g.rows), uint32_t(g.columns));
    const int64_t h = g.row + p.h, w = g.column + p.w;
    into[i] = h >= 0 && h < height && w >= 0 && w < width ? float(x.at(p.b, h, w)[p.c]) : 0.0f;
  });
}

/// dx becomes what `from` (dense) holds of it, zero where the grid does not reach.
template <class T, class Exec>
void scatter(Exec& exec, const View& dx_view, const Grid& grid, const T* from) {
  const PixelsOf<T> dx(dx_view);
  const Grid g = grid;
  exec.each(ops::elements(dx_view), [=] SPILLWAY_BOTH(uint32_t i) {
    const Place p = Place::of(i, dx.channels, dx.height, dx.width);
    const int64_t h = p.h - g.row, w = p.w - g.column;
    const bool held = h >= 0 && h < g.rows && w >= 0 && w < g.columns;
    dx.at(p.b, p.h, p.w)[p.c] = held ? float(from[((p.b * g.rows + h) * g.columns + w) * dx.channels + p.c]) : 0.0f;
  });
}

/// Weights in the layout of products: T in [O, kH, kW, C]. The place in [O, C, kH, kW] of element i.
struct WeightOrder {
  uint32_t channels = 1, window = 1;
  WeightOrder() = default;
  explicit WeightOrder(const View& w) : channels(uint32_t(w.dims[1])), window(uint32_t(w.dims[2] * w.dims[3])) {}
  SPILLWAY_BOTH int64_t plain(uint32_t i) const {
    const uint32_t c = i % channels, at = i / channels % window, o = i / channels / window;
    return (int64_t(o) * channels + c) * window + at;
  }
};

template <class T, class Exec>
void pack_weights(Exec& exec, const View& w, T* into) {
  const WeightOrder order(w);
  const float* const from = floats(w);
  exec.each(ops::elements(w), [=] SPILLWAY_BOTH(uint32_t i) { into[i] = from[order.plain(i)]; });
}

/// Weights that are laid out side by side: an item owns an element of all of them, end to end.
struct WeightsBeside {
  static constexpr uint32_t MOST = 64;  // as many as a kernel's parameters hold
  uint32_t count = 0;
  uint32_t from[MOST + 1] = {};
  const float* w[MOST] = {};
  void* laid[MOST] = {};
  WeightOrder order[MOST] = {};

  bool has_room(const KernelCall& c) const { return count < MOST && int64_t(from[count]) + ops::elements(c.ins[0]) < MOST_ELEMENTS; }
  void add(const KernelCall& c) {
    w[count] = floats(c.ins[0]);
    laid[count] = c.outs[0].data;
    order[count] = WeightOrder(c.ins[0]);
    from[count + 1] = from[count] + uint32_t(ops::elements(c.ins[0]));
    count++;
  }
  template <class T>
  SPILLWAY_BOTH void lay(uint32_t item) const {
    uint32_t lo = 0, hi = count;
    while (hi - lo > 1) {
      const uint32_t middle = (lo + hi) / 2;
      if (from[middle] <= item)
        lo = middle;
      else
        hi = middle;
    }
    const uint32_t i = item - from[lo];
    static_cast<T*>(laid[lo])[i] = w[lo][order[lo].plain(i)];
  }
};

template <>
struct Kernel<OpKind::lay_out> : OwnKernel {
  static constexpr uint32_t together = WeightsBeside::MOST;
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    lay<T>(exec, &c, 1);
  }
  /// For one type after the other, in order.
  template <class Exec>
  static void run_together(Exec& exec, const KernelCall* calls, uint32_t n) {
    for (uint32_t first = 0, end; first < n; first = end) {
      const DType stored = ops::stored_type(calls[first]);
      for (end = first + 1; end < n && ops::stored_type(calls[end]) == stored;) end++;
      with_stored(stored, [&](auto t) { lay<decltype(t)>(exec, calls + first, end - first); });
    }
  }
  template <class T, class Exec>
  static void lay(Exec& exec, const KernelCall* calls, uint32_t n) {
    for (uint32_t next = 0; next < n;) {
      WeightsBeside weights;
      do weights.add(calls[next++]);
      while (next < n && weights.has_room(calls[next]));
      exec.each(weights.from[weights.count], [=] SPILLWAY_BOTH(uint32_t item) { weights.template lay<T>(item); });
    }
  }
};

template <class T, class Exec>
void unpack_weights(Exec& exec, const View& w, const T* from) {
  const WeightOrder order(w);
  float* const into = floats(w);
  exec.each(ops::elements(w), [=] SPILLWAY_BOTH(uint32_t i) { into[order.plain(i)] = from[i]; });
}

/// y += bias (null: none), and what is not above zero times `slope`.
template <class T, class Exec>
void finish_channels(Exec& exec, const View& y, const float* bias, float slope) {
  map<T, 1>(exec, y, {&y}, [=] SPILLWAY_BOTH(const float* v, uint32_t c) { return rectify(bias ? v[0] + bias[c] : v[0], slope); });
}

}  // namespace spillway::cuda
