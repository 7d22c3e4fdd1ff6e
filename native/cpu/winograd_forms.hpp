// Forms of pixels, gradients, results and weights: where they lie, and how they are made of channels-last values.
// Those of tiles lie as [place][channels / 16][tile][16] on the side that is broadcast, as [place][channels / 32][k][32] on the
// other; those of weights as [place][panel of dst channels][src channel][32].
#pragma once
#include <algorithm>
#include <array>

#include "cpu/outside.hpp"
#include "cpu/turned_blocks.hpp"
#include "cpu/winograd.hpp"
#include "cpu/winograd_transforms.hpp"
#include "cpu/zeros.hpp"

namespace spillway::cpu::winograd {

/// Forms that all threads share should stay in the last cache.
constexpr int64_t shared_floats = 2 * 1024 * 1024;

constexpr int64_t tile_pixels = 4, line_floats = 16;

/// Tiles of four by four pixels. Forms of pixels and of weights have as many places, six in a row, as products have.
struct Squares {
  static constexpr int rows = 4, src_rows = 6, places = 36, sums = 36;
};
/// Tiles of four pixels in a row. The products of the three rows that it sees add up to those of six places.
struct Rows {
  static constexpr int rows = 1, src_rows = 3, places = 18, sums = 6;
};

/// Tiles along one axis, of `pixels` pixels a step apart: those of the first pixel, of its neighbour, and so on.
/// Worked example: 10 rows, step 4, four pixels: tiles begin at 0 (rows 0, 4, 8), 1 (1, 5, 9), 2 (2, 6) and 3 (3, 7).
class Axis {
 public:
  Axis(int64_t extent, int64_t step, int64_t pixels)
      : extent_(extent),
        step_(step),
        pixels_(pixels),
        longer_(extent % step),
        of_longer_(over(extent / step + 1, pixels)),
        of_others_(over(extent / step, pixels)),
        count_(longer_ * of_longer_ + (step - longer_) * of_others_) {}
  int64_t count() const { return count_; }
  int64_t first(int64_t tile) const {
    const int64_t there = longer_ * of_longer_;
    if (tile < there) return tile / of_longer_ + tile % of_longer_ * pixels_ * step_;
    return longer_ + (tile - there) / of_others_ + (tile - there) % of_others_ * pixels_ * step_;
  }
  /// Pixels of the tile that begins there.
  int64_t held(int64_t first) const { return std::min(pixels_, over(extent_ - first, step_)); }

 private:
  int64_t extent_, step_, pixels_, longer_, of_longer_, of_others_, count_;
};

/// The tiles of dst, image by image.
struct Tiles {
  Tiles(const Geometry& g, int64_t pixels_below)
      : rows(g.dst.rows, g.rows.step, pixels_below),
        columns(g.dst.columns, g.columns.step, tile_pixels),
        count(g.batch * rows.count() * columns.count()) {}
  Axis rows, columns;
  int64_t count;
};

template <class S>
int64_t products_of(const Geometry& g) {
  return Tiles(g, S::rows).count * S::places;
}

/// Calls f with those tiles that take fewer products.
template <class F>
auto by_tiles(const Geometry& g, F f) {
  return products_of<Rows>(g) < products_of<Squares>(g) ? f(Rows{}) : f(Squares{});
}

/// Forms of a group of tiles at each place; a line apart, so that places do not fall on the same cache sets.
struct Forms {
  float* data;
  int64_t tiles, channels;  // of the group, and padded
  static int64_t pitch(int64_t tiles, int64_t channels) { return tiles * channels + line_floats; }
  static int64_t floats(int places, int64_t tiles, int64_t channels) { return places * pitch(tiles, channels); }
  float* place(int p) const { return data + p * pitch(tiles, channels); }
  /// Sixteen channels of a tile: those of the other tiles follow.
  float* block(int p, int64_t tile, int64_t channel) const { return place(p) + channel * tiles + tile * block_width; }
  /// Half a panel of a tile.
  float* half(int p, int64_t tile, int64_t channel) const {
    return place(p) + channel / panel_width * panel_width * tiles + tile * panel_width + channel % panel_width;
  }
};

/// Up to sixteen channels; those that are not there are zero.
template <class T>
Block load_channels(const T* from, int64_t count) {
  if (count >= block_width) return load_block(from);
  T held[block_width]{};
  if (count > 0) std::copy_n(from, count, held);
  return load_block(held);
}
template <class T>
void store_channels(T* to, const Block& b, int64_t count) {
  if (count >= block_width) return store_block(to, b);
  T held[block_width];
  store_block(held, b);
  std::copy_n(held, count, to);
}

/// The part of one image that a tile writes or reads; some of it may lie outside.
template <class T>
struct Pixels {
  const T* origin;  // of its first pixel, there or not
  int64_t row_stride, column_stride, channels;
  int64_t row_lo, row_hi, column_lo, column_hi;  // those that exist
  Block at(int row, int column, int64_t channel) const {
    if (row < row_lo || row >= row_hi || column < column_lo || column >= column_hi) return Block{};
    return load_channels(origin + row * row_stride + column * column_stride + channel, channels - channel);
  }
  bool whole(int rows, int columns) const { return row_lo <= 0 && row_hi >= rows && column_lo <= 0 && column_hi >= columns; }
  /// Returns true if all numbers of all channels are 0, of either sign.
  bool empty(int rows, int columns) const {
    for (int64_t row = std::max<int64_t>(0, row_lo); row < std::min<int64_t>(rows, row_hi); row++)
      for (int64_t column = std::max<int64_t>(0, column_lo); column < std::min<int64_t>(columns, column_hi); column++)
        if (!all_zero(origin + row * row_stride + column * column_stride, channels)) return false;
    return true;
  }
};

/// From a row and a column on, which may lie outside, by the steps of g.
template <class T>
Pixels<T> pixels_at(const Geometry& g, const Plane& plane, const T* data, int64_t image, int64_t row, int64_t column) {
  const int64_t rows = g.rows.step, columns = g.columns.step, row_floats = plane.columns * plane.channels;
  return {data + (image * plane.rows + row) * row_floats + column * plane.channels,
          rows * row_floats,
          columns * plane.channels,
          plane.channels,
          over(-row, rows),
          over(plane.rows - row, rows),
          over(-column, columns),
          over(plane.columns - column, columns)};
}

/// The tile beside it comes next: memory is slower than the forms.
template <int rows, int columns, class T>
inline void fetch_next(const Pixels<T>& s, int64_t channel) {
  for (int row = 0; row < rows; row++)
    for (int column = columns; column < columns + tile_pixels; column++)
      __builtin_prefetch(s.origin + row * s.row_stride + column * s.column_stride + channel);
}

/// A transform F of the tiles of S: along both, or along the rows that there are.
template <class S, class F, int rows, class Read, class Write>
inline void transform(const Read& read, const Write& write) {
  if constexpr (std::is_same_v<S, Squares>)
    both_ways<F>(read, write);
  else
    along_rows<F, rows>(read, write);
}

/// So many channels.
struct Range {
  int64_t first, count;
};

/// The form of pixels by F; `to(place, channel)` is where sixteen of the channels go, counted from the first.
template <class S, class F, int rows, class T, class To>
inline void form_of(const Pixels<T>& s, Range channels, const To& to) {
  constexpr int columns = F::from;
  for (int64_t channel = channels.first; channel < channels.first + channels.count; channel += block_width) {
    fetch_next<rows, columns>(s, channel);
    const auto write = [&](int row, int column, const Block& b) { store_block(to(row * 6 + column, channel - channels.first), b); };
    if (s.whole(rows, columns) && channel + block_width <= s.channels)
      transform<S, F, rows>(
          [&](int row, int column) { return load_block(s.origin + row * s.row_stride + column * s.column_stride + channel); }, write);
    else
      transform<S, F, rows>([&](int row, int column) { return s.at(row, column, channel); }, write);
  }
}

struct TileAt {
  int64_t image, row, column;  // first pixel of dst
};
inline TileAt tile_at(const Tiles& tiles, int64_t i) {
  const int64_t columns = tiles.columns.count(), row = i / columns;
  return {row / tiles.rows.count(), tiles.rows.first(row % tiles.rows.count()), tiles.columns.first(i % columns)};
}

/// The pixels of src that a tile reads, and those of dst that it covers.
template <class T>
Pixels<T> image_of(const Geometry& g, const Tiles& tiles, const T* src, int64_t tile) {
  const TileAt t = tile_at(tiles, tile);
  return pixels_at(g, g.src, src, t.image, t.row + g.rows.shift, t.column + g.columns.shift);
}
template <class T>
Pixels<T> gradient_of(const Geometry& g, const Tiles& tiles, const T* ddst, int64_t tile) {
  const TileAt t = tile_at(tiles, tile);
  return pixels_at(g, g.dst, ddst, t.image, t.row, t.column);
}

/// Calls body(row, column) for the pixels of dst of a tile that are outside of the mask.
template <class Body>
void each_outside(const Geometry& g, const Tiles& tiles, TileAt at, const Outside& outside, const Body& body) {
  for (int64_t i = 0; i < tiles.rows.held(at.row); i++) {
    const int64_t row = at.row + i * g.rows.step;
    OutsideRow is_outside(&outside, at.image * g.dst.rows + row);
    for (int64_t j = 0; j < tiles.columns.held(at.column); j++)
      if (const int64_t column = at.column + j * g.columns.step; is_outside(column)) body(row, column);
  }
}
inline int64_t pixels_outside(const Geometry& g, const Tiles& tiles, TileAt at, const Outside& outside) {
  int64_t count = 0;
  each_outside(g, tiles, at, outside, [&](int64_t, int64_t) { count++; });
  return count;
}

/// The forms of a tile, at this place of its group.
template <class S, class T>
void image_forms(const Geometry& g, const Tiles& tiles, const T* src, Range channels, int64_t tile, int64_t place_in_group,
                 const Forms& forms) {
  form_of<S, ImageForm, S::src_rows>(image_of(g, tiles, src, tile), channels,
                                     [&](int place, int64_t channel) { return forms.block(place, place_in_group, channel); });
}

/// Forms of gradients lie in panels: theirs is the side of the product that is read in rows.
template <class S, class T>
void gradient_forms(const Geometry& g, const Tiles& tiles, const T* ddst, int64_t tile, int64_t place_in_group, const Forms& forms) {
  form_of<S, GradientForm, S::rows>(gradient_of(g, tiles, ddst, tile), {0, forms.channels},
                                    [&](int place, int64_t channel) { return forms.half(place, place_in_group, channel); });
}

/// Tiles that are searched at once for those to skip.
constexpr int64_t most_searched = 4096;
using Empty = std::array<bool, most_searched>;

/// Tiles to compute: all from `first` on, or those of a list, counted from there.
struct Chosen {
  const int16_t* list;
  int64_t first, count;
  int64_t operator[](int64_t i) const { return first + (list ? list[i] : i); }
};

/// Calls body(chosen) for parts of the tiles, in order; a part is whole groups. All threads of a team call it alike: they share the search,
/// and each gets the same lists. Without a search, all tiles are one part. Returns the number of chosen tiles.
template <class IsEmpty, class Body>
int64_t each_part(int64_t tiles, int64_t group, bool seeks, Empty& empty, const IsEmpty& is_empty, const Body& body) {
  if (!seeks) {
    body(Chosen{nullptr, 0, tiles});
    return tiles;
  }
  const int64_t part = most_searched / group * group;
  std::array<int16_t, most_searched> list;
  int64_t total = 0;
  for (int64_t first = 0; first < tiles; first += part) {
    const int64_t count = std::min(part, tiles - first);
#pragma omp for schedule(static)
    for (int64_t t = 0; t < count; t++) empty[size_t(t)] = is_empty(first + t);
    Chosen chosen{list.data(), first, 0};
    for (int64_t t = 0; t < count; t++)
      if (!empty[size_t(t)]) list[size_t(chosen.count++)] = int16_t(t);
        // All threads have read `empty` before the next search writes it.
#pragma omp barrier
    body(chosen);
    total += chosen.count;
  }
  return total;
}

/// Tiles behind the last: nothing.
inline void no_forms(int places, int64_t tile, const Forms& forms) {
  for (int p = 0; p < places; p++)
    for (int64_t channel = 0; channel < forms.channels; channel += block_width) store_block(forms.half(p, tile, channel), Block{});
}
inline void no_blocks(int places, int64_t tile, const Forms& forms) {
  for (int p = 0; p < places; p++)
    for (int64_t channel = 0; channel < forms.channels; channel += block_width) store_block(forms.block(p, tile, channel), Block{});
}

/// As rectify.hpp has it: slope 0 gives 0 for minus infinity, and NaN passes.
inline Block rectified(const Block& z, float slope) { return z <= 0 ? (slope == 0 ? Block{} : z * slope) : z; }

/// Results of one tile.
template <class S, bool streams, class T>
inline void write_results(const Geometry& g, const Tiles& tiles, TileAt t, const Forms& forms, int64_t tile, Range range,
                          const Finish& finish, T* dst) {
  const int64_t rows = tiles.rows.held(t.row), columns = tiles.columns.held(t.column);
  T* const origin = dst + ((t.image * g.dst.rows + t.row) * g.dst.columns + t.column) * g.dst.channels + range.first;
  for (int64_t channel = 0; channel < range.count; channel += block_width) {
    const int64_t count = range.count - channel;
    const Block shift = finish.bias ? load_channels(finish.bias + range.first + channel, count) : Block{};
    transform<S, ResultOfForm, 1>(
        [&](int row, int column) { return load_block(forms.half(row * 6 + column, tile, range.first + channel)); },
        [&](int row, int column, const Block& b) {
          if (row >= rows || column >= columns) return;
          T* const to = origin + (row * g.rows.step * g.dst.columns + column * g.columns.step) * g.dst.channels + channel;
          const Block result = finish.rectifies ? rectified(b + shift, finish.slope) : b + shift;
          if constexpr (streams)
            stream_block(to, result);
          else
            store_channels(to, result, count);
        });
  }
}

/// Results of one tile whose pixels are all 0.
template <class S, class T>
void write_level(const Geometry& g, const Tiles& tiles, TileAt t, const Finish& finish, T* dst) {
  const int64_t rows = tiles.rows.held(t.row), columns = tiles.columns.held(t.column);
  for (int64_t channel = 0; channel < g.dst.channels; channel += block_width) {
    const int64_t count = g.dst.channels - channel;
    const Block shift = finish.bias ? load_channels(finish.bias + channel, count) : Block{};
    const Block level = finish.rectifies ? rectified(shift, finish.slope) : shift;
    for (int64_t row = 0; row < rows; row++)
      for (int64_t column = 0; column < columns; column++) {
        const int64_t at_row = t.image * g.dst.rows + t.row + row * g.rows.step, at_column = t.column + column * g.columns.step;
        store_channels(dst + (at_row * g.dst.columns + at_column) * g.dst.channels + channel, level, count);
      }
  }
}

// ---------------------------------------------------------------- weights

/// Forms of the weights: [place][panel of dst channels][src channel][32]; places a line apart, as those of tiles.
struct WeightForms {
  float* data;
  int64_t src, dst;  // padded
  static int64_t pitch(int64_t src, int64_t dst) { return src * dst + line_floats; }
  static int64_t floats(int places, int64_t src, int64_t dst) { return places * pitch(src, dst); }
  float* panel(int p, int64_t dst_channel) const { return data + p * pitch(src, dst) + dst_channel / panel_width * panel_width * src; }
  float* half(int p, int64_t src_channel, int64_t dst_channel) const {
    return panel(p, dst_channel) + src_channel * panel_width + dst_channel % panel_width;
  }
};

/// The addresses of the nine weights of a pair of channels.
struct WeightOrder {
  int64_t src_stride, dst_stride;
  bool turned;
  int tap(int row, int column) const { return turned ? 8 - row * 3 - column : row * 3 + column; }
};

inline WeightOrder weight_order(const Geometry& g, Weights order) {
  return order == Weights::forward ? WeightOrder{9, g.src.channels * 9, false} : WeightOrder{g.dst.channels * 9, 9, true};
}

constexpr int taps_of_weight = 9;
/// The weights between sixteen channels of src and sixteen of dst: [src][tap][dst].
using Taps = float[block_width][taps_of_weight][block_width];
constexpr int64_t row_of_taps = taps_of_weight * block_width;

/// Sixteen whole channels on either side. A row of memory holds the taps of one channel of dst for all of src, or the other way round.
/// The next rows are prefetched, because they are too far apart for the processor's prefetcher.
inline void read_taps(WeightOrder order, const float* weights, Taps& taps) {
  if (!order.turned) {
    for (int64_t at = 0; at < row_of_taps; at += block_width)
      turn(weights + at, order.dst_stride, [&](int column, const Block& b) {
        __builtin_prefetch(weights + column * order.dst_stride + at + row_of_taps);
        store_block(&taps[0][0][0] + (at + column) * block_width, b);
      });
    return;
  }
  for (int64_t src = 0; src < block_width; src++) {
    const float* const from = weights + src * order.src_stride;
    for (int64_t line = 0; line < row_of_taps; line += line_floats) __builtin_prefetch(from + 2 * order.src_stride + line);
    Square16 lanes;
#pragma GCC unroll 16
    for (int lane = 0; lane < block_width - 1; lane++) lanes[lane] = load_block(from + lane * taps_of_weight);
    // Sixteen floats from the last row on might end behind the weights.
    lanes[block_width - 1] = load_channels(from + (block_width - 1) * taps_of_weight, taps_of_weight);
    turn(lanes);
#pragma GCC unroll 9
    for (int tap = 0; tap < taps_of_weight; tap++) store_block(taps[src][tap], lanes[tap]);
  }
}

/// As far as there are such channels; those that are not there are zero.
inline void read_some_taps(WeightOrder order, const float* weights, int64_t sources, int64_t lanes, Taps& taps) {
  std::fill_n(&taps[0][0][0], sizeof taps / sizeof(float), 0.0f);
  for (int64_t src = 0; src < sources; src++)
    for (int64_t lane = 0; lane < lanes; lane++)
      for (int tap = 0; tap < taps_of_weight; tap++) taps[src][tap][lane] = weights[src * order.src_stride + lane * order.dst_stride + tap];
}

/// Forms of some channels of src and sixteen of dst; `at` is where the latter begin in the forms.
template <class S>
void weight_forms(const Geometry& g, WeightOrder order, const float* weights, Range src, int64_t dst, const WeightForms& forms,
                  int64_t at) {
  const int64_t lanes = std::clamp<int64_t>(g.dst.channels - dst, 0, block_width);
  alignas(64) Taps taps;
  for (int64_t first = 0; first < src.count; first += block_width) {
    const int64_t sources = std::clamp<int64_t>(g.src.channels - src.first - first, 0, block_width);
    const float* const from = weights + (src.first + first) * order.src_stride + dst * order.dst_stride;
    sources == block_width&& lanes == block_width ? read_taps(order, from, taps) : read_some_taps(order, from, sources, lanes, taps);
    for (int64_t one = 0; one < block_width; one++)
      transform<S, WeightForm, 3>(
          [&](int row, int column) { return load_block(taps[one][order.tap(row, column)]); },
          [&](int row, int column, const Block& b) { store_block(forms.half(row * 6 + column, first + one, at), b); });
  }
}

/// Adds to (or sets) the weights between `src.count` channels of src and sixteen of dst; `at` is where these begin in the forms.
template <class S>
void weights_of_forms(const Geometry& g, const WeightForms& forms, Range src, int64_t dst, int64_t at, bool add, float* dw) {
  const WeightOrder order = weight_order(g, Weights::forward);
  const int64_t lanes = std::min(g.dst.channels - dst, block_width);
  for (int64_t c = 0; c < src.count; c++) {
    float taps[taps_of_weight][block_width];
    transform<S, WeightOfForm, 3>([&](int row, int column) { return load_block(forms.half(row * 6 + column, c, at)); },
                                  [&](int row, int column, const Block& b) { store_block(taps[row * 3 + column], b); });
    for (int64_t lane = 0; lane < lanes; lane++) {
      float* const to = dw + (src.first + c) * order.src_stride + (dst + lane) * order.dst_stride;
      for (int tap = 0; tap < taps_of_weight; tap++) to[tap] = add ? to[tap] + taps[tap][lane] : taps[tap][lane];
    }
  }
}

}  // namespace spillway::cpu::winograd
