// Views for the indexing of work items. In: activations with channels innermost. Out: pixel p's first channel for any
// strides; element-wise maps in the longest steps that the operands allow: 16 bytes side by side, one element, or by place.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "cuda/kernels/exec.hpp"
#include "cuda/kernels/stored.hpp"
#include "ops/check.hpp"

namespace spillway::cuda {

/// Pixels of a box in B, H, W order. Without gaps the offset of a pixel is one product.
template <class T>
struct PixelsOf {
  T* data;
  uint32_t channels, height, width;
  int64_t stride_b, stride_h, stride_w;
  bool flat;

  PixelsOf() = default;
  explicit PixelsOf(const View& v)
      : data(static_cast<T*>(v.data)),
        channels(uint32_t(v.dims[1])),
        height(uint32_t(v.dims[2])),
        width(uint32_t(v.dims[3])),
        stride_b(v.strides[0]),
        stride_h(v.strides[2]),
        stride_w(v.strides[3]),
        flat(ops::dense_channels_last(v)) {}

  SPILLWAY_BOTH int64_t offset(uint32_t pixel) const {
    if (flat) return int64_t(pixel) * channels;
    const uint32_t w = pixel % width, row = pixel / width;
    return row / height * stride_b + row % height * stride_h + w * stride_w;
  }
  SPILLWAY_BOTH T* at(uint32_t pixel) const { return data + offset(pixel); }
  SPILLWAY_BOTH T* at(int64_t b, int64_t h, int64_t w) const { return data + b * stride_b + h * stride_h + w * stride_w; }
};
using Pixels = PixelsOf<float>;

/// Divides numbers below 2^31 by one that the host knows: a multiplication and a shift. Worked example: by 3, factor 2863311531 = ⌈2^33 /
/// 3⌉ and shift 33.
struct Divider {
  uint32_t factor, shift;
  explicit Divider(uint32_t by) : factor(0), shift(31) {
    while (uint64_t(1) << (shift - 31) < by) shift++;
    factor = uint32_t(((uint64_t(1) << shift) + by - 1) / by);
  }
  SPILLWAY_BOTH uint32_t of(uint32_t n) const { return uint32_t(uint64_t(n) * factor >> shift); }
};

/// A place in a box of `dims`, from its number in B, H, W, C order.
struct Place {
  uint32_t b, c, h, w;
  SPILLWAY_BOTH static Place of(uint32_t i, uint32_t channels, uint32_t height, uint32_t width) {
    const uint32_t pixel = i / channels, row = pixel / width;
    return {row / height, i % channels, row % height, pixel % width};
  }
};

/// The type of an access to elements side by side.
template <class T, int LANES>
struct alignas(LANES * sizeof(T)) Beside {
  T v[LANES];
};
/// The type of the longest access.
template <class T>
struct Wide : Beside<T, 16 / sizeof(T)> {
  static constexpr int LANES = 16 / sizeof(T);
};

template <class T, int N>
struct Arrays {
  const T* at[N];
};

inline bool aligned_for_wide(const View& v) { return reinterpret_cast<uintptr_t>(v.data) % 16 == 0; }

template <class T, int N, class Exec, class Op>
void map_wide(Exec& exec, T* out, Arrays<T, N> in, uint32_t channels, int64_t count, Op op) {
  constexpr int LANES = Wide<T>::LANES;
  const uint32_t groups = channels / uint32_t(LANES);
  exec.each(count / LANES, [=] SPILLWAY_BOTH(uint32_t i) {
    Wide<T> x[N], result;
    for (int k = 0; k < N; k++) x[k] = reinterpret_cast<const Wide<T>*>(in.at[k])[i];
    const uint32_t channel = i % groups * uint32_t(LANES);
    for (int lane = 0; lane < LANES; lane++) {
      float values[N];
      for (int k = 0; k < N; k++) values[k] = x[k].v[lane];
      result.v[lane] = op(values, channel + uint32_t(lane));
    }
    reinterpret_cast<Wide<T>*>(out)[i] = result;
  });
}

template <class T, int N>
struct PixelArrays {
  PixelsOf<T> of[N];
};

template <class T, int N, class Exec, class Op>
void map_pixels(Exec& exec, const View& y_view, const View* const (&xs)[N], Op op) {
  const PixelsOf<T> y(y_view);
  PixelArrays<T, N> in;
  for (int k = 0; k < N; k++) in.of[k] = PixelsOf<T>(*xs[k]);
  exec.each(ops::elements(y_view), [=] SPILLWAY_BOTH(uint32_t i) {
    const uint32_t pixel = i / y.channels, c = i % y.channels;
    float x[N];
    for (int k = 0; k < N; k++) x[k] = in.of[k].at(pixel)[c];
    y.at(pixel)[c] = op(x, c);
  });
}

/// y = op(values of the N inputs at this place, channel), over boxes of equal dims. y may be one of the inputs.
template <class T, int N, class Exec, class Op>
void map(Exec& exec, const View& y, const View* const (&xs)[N], Op op) {
  bool flat = ops::dense_channels_last(y), wide = y.dims[1] % Wide<T>::LANES == 0 && aligned_for_wide(y);
  Arrays<T, N> in;
  for (int k = 0; k < N; k++) {
    flat = flat && ops::dense_channels_last(*xs[k]);
    wide = wide && aligned_for_wide(*xs[k]);
    in.at[k] = static_cast<const T*>(xs[k]->data);
  }
  T* const out = static_cast<T*>(y.data);
  const uint32_t channels = uint32_t(y.dims[1]);
  const int64_t count = ops::elements(y);
  if (flat && wide) return map_wide(exec, out, in, channels, count, op);
  if (flat) {
    exec.each(count, [=] SPILLWAY_BOTH(uint32_t i) {
      float x[N];
      for (int k = 0; k < N; k++) x[k] = in.at[k][i];
      out[i] = op(x, i % channels);
    });
    return;
  }
  map_pixels<T, N>(exec, y, xs, op);
}

// ---------------------------------------------------------------- by channel

/// Returns true if each pixel's channels can be read 16 bytes at a time.
template <class T>
bool has_wide_pixels(const View& v) {
  constexpr int64_t LANES = Wide<T>::LANES;
  return aligned_for_wide(v) && v.dims[1] % LANES == 0 && v.strides[0] % LANES == 0 && v.strides[2] % LANES == 0 &&
         v.strides[3] % LANES == 0;
}

template <int LANES, class T>
SPILLWAY_BOTH void fetch(const T* at, float* values) {
  if constexpr (LANES == 1)
    values[0] = at[0];
  else {
    static_assert(LANES <= Wide<T>::LANES);
    const Beside<T, LANES> wide = *reinterpret_cast<const Beside<T, LANES>*>(at);
    for (int lane = 0; lane < LANES; lane++) values[lane] = wide.v[lane];
  }
}

template <int LANES, class T>
SPILLWAY_BOTH void put(T* at, const float* values) {
  if constexpr (LANES == 1)
    at[0] = values[0];
  else {
    static_assert(LANES <= Wide<T>::LANES);
    Beside<T, LANES> wide;
    for (int lane = 0; lane < LANES; lane++) wide.v[lane] = values[lane];
    *reinterpret_cast<Beside<T, LANES>*>(at) = wide;
  }
}

/// Items side by side in a block, with LANES columns each: a line of memory or two.
template <int LANES>
constexpr uint32_t MOST_ACROSS = LANES > 1 ? 64 / LANES : 32;

/// How blocks share columns and rows. A block has `across` items side by side, with LANES columns each; its other items lie below them, a
/// row each. `shares` blocks have the same columns and take turns with the rows.
template <int LANES>
struct BlockGrid {
  uint32_t columns, across, blocks_across, shares;
  explicit BlockGrid(int64_t columns_) : columns(uint32_t(columns_)), across(1), shares(1) {
    while (across < MOST_ACROSS<LANES> && across * LANES < columns) across *= 2;
    blocks_across = (columns + across * LANES - 1) / (across * LANES);
  }
  int64_t blocks() const { return int64_t(blocks_across) * shares; }
  SPILLWAY_BOTH uint32_t rows() const { return BLOCK_ITEMS / across; }
  SPILLWAY_BOTH uint32_t group(uint32_t block) const { return block % blocks_across; }
  SPILLWAY_BOTH uint32_t share(uint32_t block) const { return block / blocks_across; }
  SPILLWAY_BOTH uint32_t first_column(uint32_t block) const { return group(block) * across * LANES; }
  SPILLWAY_BOTH uint32_t column(uint32_t block, uint32_t item) const { return first_column(block) + item % across * LANES; }
  SPILLWAY_BOTH uint32_t row(uint32_t block, uint32_t item) const { return share(block) * rows() + item / across; }
  /// From a row of an item to its next one.
  SPILLWAY_BOTH uint32_t step() const { return shares * rows(); }
};

template <class At, int LANES>
struct AtChannels {
  At at[LANES];
};

/// f.at(column) for the columns of a block: an item computes those of one column, and all items read them.
template <class At, int LANES>
struct AtColumns {
  At at[MOST_ACROSS<LANES> * LANES];

  template <class F>
  SPILLWAY_BOTH void put(const F& f, const BlockGrid<LANES>& grid, uint32_t block, uint32_t item) {
    const uint32_t column = grid.first_column(block) + item;
    if (item < grid.across * LANES && column < grid.columns) at[item] = f.at(column);
  }
  SPILLWAY_BOTH AtChannels<At, LANES> of(const BlockGrid<LANES>& grid, uint32_t item) const {
    AtChannels<At, LANES> own;
    for (int lane = 0; lane < LANES; lane++) own.at[lane] = at[item % grid.across * LANES + uint32_t(lane)];
    return own;
  }
};
static_assert(64 <= BLOCK_ITEMS, "an item for each column of a block");

struct Nothing {};

template <int LANES, class Body>
struct ByChannels {
  static constexpr int PHASES = 2;
  using Shared = AtColumns<decltype(std::declval<const Body&>().at(uint32_t(0))), LANES>;
  BlockGrid<LANES> grid;
  uint32_t pixels;
  Body body;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    if constexpr (phase == 0)
      shared.put(body, grid, block, item);
    else {
      const uint32_t channel = grid.column(block, item);
      if (channel >= grid.columns) return;
      const auto of = shared.of(grid, item);
      const auto start = body.template start<LANES>(channel);
      for (uint32_t pixel = grid.row(block, item); pixel < pixels; pixel += grid.step())
        body.template step<LANES>(of, start, pixel, channel);
    }
  }
};

/// body.step<LANES>(of, start, pixel, channel) for every pixel and every LANES channels side by side. `of` is body.at() of each of these
/// channels, computed once a block; `start` is body.start<LANES>(channel), computed once an item.
template <int LANES, class Exec, class Body>
void each_by_channels(Exec& exec, int64_t pixels, int64_t channels, Body body) {
  constexpr int64_t MOST_BLOCKS = 2048, LEAST_TURNS = 4;  // keep a large GPU busy; repay the computation of the channels' values
  BlockGrid<LANES> grid(channels);
  const int64_t turns = int64_t(grid.rows()) * LEAST_TURNS;
  grid.shares = uint32_t(std::max<int64_t>(1, std::min(MOST_BLOCKS / grid.blocks_across, (pixels + turns - 1) / turns)));
  exec.blocks(grid.blocks(), ByChannels<LANES, Body>{grid, uint32_t(pixels), body});
}

template <class T, int N, class F>
struct MapByChannel {
  PixelsOf<T> y;
  PixelArrays<T, N> in;
  F f;
  SPILLWAY_BOTH auto at(uint32_t channel) const { return f.at(channel); }
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void step(const Of& of, Nothing, uint32_t pixel, uint32_t channel) const {
    float x[N][LANES], result[LANES];
    for (int k = 0; k < N; k++) fetch<LANES>(in.of[k].at(pixel) + channel, x[k]);
    for (int lane = 0; lane < LANES; lane++) {
      float values[N];
      for (int k = 0; k < N; k++) values[k] = x[k][lane];
      result[lane] = f.of(of.at[lane], values);
    }
    put<LANES>(y.at(pixel) + channel, result);
  }
};

/// y = f.of(f.at(channel), values of the N inputs at this place). y may be one of the inputs.
template <class T, int N, class Exec, class F>
void map_by_channel(Exec& exec, const View& y, const View* const (&xs)[N], F f) {
  MapByChannel<T, N, F> body{PixelsOf<T>(y), {}, f};
  bool wide = has_wide_pixels<T>(y);
  for (int k = 0; k < N; k++) {
    body.in.of[k] = PixelsOf<T>(*xs[k]);
    wide = wide && has_wide_pixels<T>(*xs[k]);
  }
  if (wide)
    each_by_channels<Wide<T>::LANES>(exec, ops::pixels(y), y.dims[1], body);
  else
    each_by_channels<1>(exec, ops::pixels(y), y.dims[1], body);
}

/// The part of `whole` where `part` lies, as a view with the dims of `part`.
template <class T>
View window_onto(const View& whole, const View& part) {
  View v = whole;
  T* data = static_cast<T*>(whole.data);
  for (int d = 0; d < 4; d++) {
    data += (part.origin[d] - whole.origin[d]) * whole.strides[d];
    v.dims[d] = part.dims[d];
    v.origin[d] = part.origin[d];
  }
  v.data = data;
  return v;
}

}  // namespace spillway::cuda
