// Three stages for each group of tiles: forms of the pixels, products at each of the 36 places, results of the forms.
// Forms lie as [place][channels / 16][tile][16] on the side that is broadcast, as [place][channels / 32][k][32] on the other.
#include "cpu/winograd.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/winograd_transforms.hpp"

namespace spillway::cpu::winograd {
namespace {

constexpr int64_t tile_pixels = 4, line_floats = 16;

int64_t over(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t rounded_up(int64_t n, int64_t to) { return over(n, to) * to; }

/// The tiles of dst, four by four pixels, image by image and row by row.
struct Tiles {
  explicit Tiles(const Geometry& g) : rows(over(g.dst.rows, tile_pixels)), columns(over(g.dst.columns, tile_pixels)), count(g.batch * rows * columns) {}
  int64_t rows, columns, count;
};

/// Forms of a group of tiles at each place; a line apart, so that the 36 places do not fall on the same cache sets.
struct Forms {
  float* data;
  int64_t tiles, channels;  // of the group, and padded
  static int64_t pitch(int64_t tiles, int64_t channels) { return tiles * channels + line_floats; }
  static int64_t floats(int64_t tiles, int64_t channels) { return places * pitch(tiles, channels); }
  float* place(int p) const { return data + p * pitch(tiles, channels); }
  /// Sixteen channels of a tile: those of the other tiles follow.
  float* block(int p, int64_t tile, int64_t channel) const { return place(p) + channel * tiles + tile * block_width; }
  /// Half a panel of a tile.
  float* half(int p, int64_t tile, int64_t channel) const {
    return place(p) + channel / panel_width * panel_width * tiles + tile * panel_width + channel % panel_width;
  }
};

/// Up to sixteen channels; those that are not there are zero.
Block load_channels(const float* from, int64_t count) {
  if (count >= block_width) return load_block(from);
  Block b{};
  if (count > 0) std::memcpy(&b, from, size_t(count) * sizeof(float));
  return b;
}
void store_channels(float* to, const Block& b, int64_t count) {
  std::memcpy(to, &b, size_t(std::min(count, block_width)) * sizeof(float));
}

/// A square of pixels of one image, some of which may lie outside.
struct Square {
  const float* origin;  // of its first pixel, there or not
  int64_t row_stride, column_stride, channels;
  int64_t row_lo, row_hi, column_lo, column_hi;  // those that exist
  Block at(int row, int column, int64_t channel) const {
    if (row < row_lo || row >= row_hi || column < column_lo || column >= column_hi) return Block{};
    return load_channels(origin + row * row_stride + column * column_stride + channel, channels - channel);
  }
  bool whole(int n) const { return row_lo <= 0 && row_hi >= n && column_lo <= 0 && column_hi >= n; }
};

Square square_at(const Plane& plane, const float* data, int64_t image, int64_t row, int64_t column) {
  const int64_t row_stride = plane.columns * plane.channels;
  return {data + (image * plane.rows + row) * row_stride + column * plane.channels, row_stride, plane.channels, plane.channels,
          -row, plane.rows - row, -column, plane.columns - column};
}

/// The form of an n x n square by f, for all channels; `to(place, channel)` is where sixteen of them go.
template <int n, class F, class To>
void form_of(const Square& s, int64_t channels, F f, const To& to) {
  for (int64_t channel = 0; channel < channels; channel += block_width) {
    const auto write = [&](int row, int column, const Block& b) { store_block(to(row * 6 + column, channel), b); };
    if (s.whole(n) && channel + block_width <= s.channels)
      both_ways<n, 6>(f, [&](int row, int column) { return load_block(s.origin + row * s.row_stride + column * s.column_stride + channel); }, write);
    else
      both_ways<n, 6>(f, [&](int row, int column) { return s.at(row, column, channel); }, write);
  }
}

struct TileAt {
  int64_t image, row, column;  // first pixel of dst
};
TileAt tile_at(const Tiles& tiles, int64_t i) {
  return {i / (tiles.rows * tiles.columns), i / tiles.columns % tiles.rows * tile_pixels, i % tiles.columns * tile_pixels};
}

void image_forms(const Geometry& g, const Tiles& tiles, const float* src, int64_t first, int64_t tile, const Forms& forms) {
  const TileAt t = tile_at(tiles, first + tile);
  const Square s = square_at(g.src, src, t.image, t.row + g.row_shift, t.column + g.column_shift);
  form_of<6>(s, forms.channels, image_form, [&](int place, int64_t channel) { return forms.block(place, tile, channel); });
}

/// Forms of gradients lie in panels: theirs is the side of the product that is read in rows.
void gradient_forms(const Geometry& g, const Tiles& tiles, const float* ddst, int64_t first, int64_t tile, const Forms& forms) {
  const TileAt t = tile_at(tiles, first + tile);
  const Square s = square_at(g.dst, ddst, t.image, t.row, t.column);
  form_of<4>(s, forms.channels, gradient_form, [&](int place, int64_t channel) { return forms.half(place, tile, channel); });
}

/// Tiles behind the last: nothing.
void no_forms(int64_t tile, const Forms& forms) {
  for (int p = 0; p < places; p++)
    for (int64_t channel = 0; channel < forms.channels; channel += block_width) store_block(forms.half(p, tile, channel), Block{});
}
void no_blocks(int64_t tile, const Forms& forms) {
  for (int p = 0; p < places; p++)
    for (int64_t channel = 0; channel < forms.channels; channel += block_width) store_block(forms.block(p, tile, channel), Block{});
}

void write_results(const Geometry& g, const Tiles& tiles, const Forms& forms, int64_t first, int64_t tile, const float* bias, float* dst) {
  const TileAt t = tile_at(tiles, first + tile);
  const int64_t rows = std::min(tile_pixels, g.dst.rows - t.row), columns = std::min(tile_pixels, g.dst.columns - t.column);
  float* const origin = dst + ((t.image * g.dst.rows + t.row) * g.dst.columns + t.column) * g.dst.channels;
  for (int64_t channel = 0; channel < g.dst.channels; channel += block_width) {
    const int64_t count = g.dst.channels - channel;
    const Block shift = bias ? load_channels(bias + channel, count) : Block{};
    both_ways<6, 4>(result_of_form, [&](int row, int column) { return load_block(forms.half(row * 6 + column, tile, channel)); },
                    [&](int row, int column, const Block& b) {
                      if (row < rows && column < columns) store_channels(origin + (row * g.dst.columns + column) * g.dst.channels + channel, b + shift, count);
                    });
  }
}

// ---------------------------------------------------------------- weights

/// Forms of the weights: [place][panel of dst channels][src channel][32].
struct WeightForms {
  float* data;
  int64_t src, dst;  // padded
  static int64_t floats(int64_t src, int64_t dst) { return places * src * dst; }
  float* panel(int p, int64_t dst_channel) const { return data + (p * dst + dst_channel / panel_width * panel_width) * src; }
  float* half(int p, int64_t src_channel, int64_t dst_channel) const {
    return panel(p, dst_channel) + src_channel * panel_width + dst_channel % panel_width;
  }
};

/// Where the nine weights of a pair of channels begin.
struct WeightOrder {
  int64_t src_stride, dst_stride;
  bool turned;
  int tap(int row, int column) const { return turned ? 8 - row * 3 - column : row * 3 + column; }
};

WeightOrder weight_order(const Geometry& g, Weights order) {
  return order == Weights::forward ? WeightOrder{9, g.src.channels * 9, false} : WeightOrder{g.dst.channels * 9, 9, true};
}

void weight_forms(const Geometry& g, WeightOrder order, const float* weights, const WeightForms& forms) {
#pragma omp parallel for schedule(static)
  for (int64_t dst = 0; dst < forms.dst; dst += block_width) {
    const int64_t lanes = std::clamp<int64_t>(g.dst.channels - dst, 0, block_width);
    for (int64_t src = 0; src < forms.src; src++) {
      float taps[9][block_width] = {};
      if (src < g.src.channels)
        for (int64_t lane = 0; lane < lanes; lane++)
          for (int tap = 0; tap < 9; tap++) taps[tap][lane] = weights[src * order.src_stride + (dst + lane) * order.dst_stride + tap];
      both_ways<3, 6>(weight_form, [&](int row, int column) { return load_block(taps[order.tap(row, column)]); },
                      [&](int row, int column, const Block& b) { store_block(forms.half(row * 6 + column, src, dst), b); });
    }
  }
}

void weights_of_forms(const Geometry& g, const WeightForms& forms, float* dw) {
  const WeightOrder order = weight_order(g, Weights::forward);
#pragma omp parallel for schedule(static)
  for (int64_t dst = 0; dst < g.dst.channels; dst += block_width) {
    const int64_t lanes = std::min(g.dst.channels - dst, block_width);
    for (int64_t src = 0; src < g.src.channels; src++) {
      float taps[9][block_width];
      both_ways<6, 3>(weight_of_form, [&](int row, int column) { return load_block(forms.half(row * 6 + column, src, dst)); },
                      [&](int row, int column, const Block& b) { store_block(taps[row * 3 + column], b); });
      for (int64_t lane = 0; lane < lanes; lane++)
        for (int tap = 0; tap < 9; tap++) dw[src * order.src_stride + (dst + lane) * order.dst_stride + tap] = taps[tap][lane];
    }
  }
}

// ---------------------------------------------------------------- products

using Multiply = void (*)(const float*, ASteps, const float*, float*, int64_t, bool);

/// By number of rows.
constexpr auto multiply_table = []<size_t... rows>(std::index_sequence<rows...>) {
  return std::array<Multiply, sizeof...(rows)>{multiply_panel<int(rows) + 1>...};
}(std::make_index_sequence<most_rows>());

/// C rows of 32 (+)= A·B, for any number of rows.
void multiply(const float* a, ASteps step, int64_t rows, const float* b, float* c, int64_t k_blocks, bool add) {
  for (int64_t row = 0; row < rows; row += most_rows)
    multiply_table[size_t(std::min<int64_t>(most_rows, rows - row) - 1)](a + row * step.row, step, b, c + row * panel_width, k_blocks, add);
}

// ---------------------------------------------------------------- the convolution

/// Forms of pixels and results of one group should stay in a core's cache; few tiles would read the weights too often.
constexpr int64_t group_floats = 320 * 1024, least_tiles = most_rows * 2, most_tiles = most_rows * 8;

struct ConvolvePlan {
  Tiles tiles;
  int64_t src_channels, dst_channels, group, groups;
  ConvolvePlan(const Geometry& g, int threads)
      : tiles(g), src_channels(rounded_up(g.src.channels, block_width)), dst_channels(rounded_up(g.dst.channels, panel_width)) {
    const int64_t wanted = std::clamp(group_floats / places / (src_channels + dst_channels), least_tiles, most_tiles);
    groups = rounded_up(over(tiles.count, wanted), threads);
    group = rounded_up(over(tiles.count, groups), most_rows);
    groups = over(tiles.count, group);
  }
  int64_t weight_floats() const { return WeightForms::floats(src_channels, dst_channels); }
  int64_t group_floats_all() const { return Forms::floats(group, src_channels) + Forms::floats(group, dst_channels); }
};

struct Group {
  int64_t first, count;
};

void convolve_group(const Geometry& g, const ConvolvePlan& plan, Group group, const WeightForms& weights, const float* src, const float* bias, float* dst, float* scratch) {
  const Forms pixels{scratch, plan.group, plan.src_channels};
  const Forms results{scratch + Forms::floats(plan.group, plan.src_channels), plan.group, plan.dst_channels};
  for (int64_t t = 0; t < group.count; t++) image_forms(g, plan.tiles, src, group.first, t, pixels);
  const ASteps steps{block_width, 1, plan.group * block_width};
  for (int p = 0; p < places; p++)
    for (int64_t channel = 0; channel < plan.dst_channels; channel += panel_width)
      multiply(pixels.place(p), steps, group.count, weights.panel(p, channel), results.half(p, 0, channel), plan.src_channels / block_width, false);
  for (int64_t t = 0; t < group.count; t++) write_results(g, plan.tiles, results, group.first, t, bias, dst);
}

// ---------------------------------------------------------------- the weight gradient

/// Forms of a group, which all threads share, should stay in the last cache; few tiles would pass over the sums too often.
constexpr int64_t shared_floats = 6 * 1024 * 1024, least_terms = 64, most_terms = 1024;
constexpr int64_t gradient_rows = 8;

struct GradientPlan {
  Tiles tiles;
  int64_t src_channels, dst_channels, group;
  explicit GradientPlan(const Geometry& g)
      : tiles(g), src_channels(rounded_up(g.src.channels, block_width)), dst_channels(rounded_up(g.dst.channels, panel_width)) {
    const int64_t wanted = std::clamp(shared_floats / places / (src_channels + dst_channels), least_terms, most_terms);
    group = rounded_up(over(tiles.count, over(tiles.count, wanted)), block_width);
  }
};

void add_products(const GradientPlan& plan, int p, int64_t dst, int64_t terms, const Forms& pixels, const Forms& gradients, const WeightForms& sums, bool add) {
  const ASteps steps{1, block_width, block_width * block_width};
  for (int64_t src = 0; src < plan.src_channels; src += gradient_rows)
    multiply_panel<gradient_rows>(pixels.block(p, 0, src / block_width * block_width) + src % block_width, steps, gradients.half(p, 0, dst),
                                  sums.half(p, src, dst), terms / block_width, add);
}

}  // namespace

int64_t convolve_bytes(const Geometry& g, int threads) {
  const ConvolvePlan plan(g, threads);
  return (plan.weight_floats() + threads * plan.group_floats_all()) * int64_t(sizeof(float));
}

void convolve(const Geometry& g, int threads, Weights order, const float* src, const float* weights, const float* bias, float* dst, void* scratch) {
  const ConvolvePlan plan(g, threads);
  float* const floats = static_cast<float*>(scratch);
  const WeightForms forms{floats, plan.src_channels, plan.dst_channels};
  weight_forms(g, weight_order(g, order), weights, forms);
#pragma omp parallel num_threads(threads)
  {
    float* const own = floats + plan.weight_floats() + omp_get_thread_num() * plan.group_floats_all();
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < plan.groups; i++) {
      const int64_t first = i * plan.group;
      convolve_group(g, plan, {first, std::min(plan.group, plan.tiles.count - first)}, forms, src, bias, dst, own);
    }
  }
}

int64_t weight_gradient_bytes(const Geometry& g) {
  const GradientPlan plan(g);
  return (WeightForms::floats(plan.src_channels, plan.dst_channels) + Forms::floats(plan.group, plan.src_channels) +
          Forms::floats(plan.group, plan.dst_channels)) * int64_t(sizeof(float));
}

void weight_gradient(const Geometry& g, const float* src, const float* ddst, float* dw, void* scratch) {
  const GradientPlan plan(g);
  float* const floats = static_cast<float*>(scratch);
  const WeightForms sums{floats, plan.src_channels, plan.dst_channels};
  float* const rest = floats + WeightForms::floats(plan.src_channels, plan.dst_channels);
  const Forms pixels{rest, plan.group, plan.src_channels};
  const Forms gradients{rest + Forms::floats(plan.group, plan.src_channels), plan.group, plan.dst_channels};
  for (int64_t first = 0; first < plan.tiles.count; first += plan.group) {
    const int64_t count = std::min(plan.group, plan.tiles.count - first), terms = rounded_up(count, block_width);
#pragma omp parallel
    {
#pragma omp for schedule(static)
      for (int64_t t = 0; t < terms; t++) {
        if (t < count) {
          image_forms(g, plan.tiles, src, first, t, pixels);
          gradient_forms(g, plan.tiles, ddst, first, t, gradients);
        } else {
          no_blocks(t, pixels);
          no_forms(t, gradients);
        }
      }
#pragma omp for schedule(static) collapse(2)
      for (int p = 0; p < places; p++)
        for (int64_t dst = 0; dst < plan.dst_channels; dst += panel_width) add_products(plan, p, dst, terms, pixels, gradients, sums, first > 0);
    }
  }
  weights_of_forms(g, sums, dw);
}

}  // namespace spillway::cpu::winograd
