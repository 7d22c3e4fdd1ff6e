// Three stages for each group of tiles: forms of the pixels, products at each of the places, results of the forms. Threads
// take groups where the forms of all weights stay in the caches; else they share a group and take panels of its results.
#include <omp.h>

#include <type_traits>

#include "cpu/winograd_forms.hpp"

namespace spillway::cpu::winograd {
namespace {

/// Forms of pixels and results of one group should stay in a core's cache; few tiles would read the weights too often.
constexpr int64_t group_floats = 192 * 1024, least_tiles = most_rows * 2, most_tiles = most_rows * 8;
/// Forms of weights that are larger than this would come from memory, again for each group.
constexpr int64_t most_weight_floats = 1024 * 1024, most_shared_tiles = most_rows * 16;
/// For shared groups: channels of src at once, and channels of dst for a thread. Then the forms of one place stay in the cache of
/// a core.
constexpr int64_t most_sources = 128, most_panels = 4;
/// Results larger than this are not in the caches any more when they are read.
constexpr int64_t streamed_bytes = 16 << 20;

template <class S>
struct ConvolvePlan {
  Tiles tiles;
  int64_t src_channels, dst_channels, group, groups;
  bool by_panels;
  int64_t sources, wide;  // channels of src whose forms are held at once, and of dst
  ConvolvePlan(const Geometry& g, int threads)
      : tiles(g, S::rows),
        src_channels(rounded_up(g.src.channels, block_width)),
        dst_channels(rounded_up(g.dst.channels, panel_width)),
        by_panels(WeightForms::floats(S::places, src_channels, dst_channels) > most_weight_floats),
        sources(by_panels ? std::min(src_channels, most_sources) : src_channels),
        wide(by_panels ? std::clamp(dst_channels / panel_width / threads, int64_t(1), most_panels) * panel_width : dst_channels) {
    const int64_t tile_floats = S::places * sources + S::sums * dst_channels;
    const int64_t wanted = by_panels ? std::clamp(shared_floats / tile_floats, least_tiles, most_shared_tiles)
                                     : std::clamp(group_floats / tile_floats, least_tiles, most_tiles);
    groups = over(tiles.count, wanted);
    if (!by_panels) groups = rounded_up(groups, threads);
    group = rounded_up(over(tiles.count, groups), most_rows);
    groups = over(tiles.count, group);
  }
  int64_t weight_floats() const { return WeightForms::floats(S::places, sources, wide); }
  int64_t pixel_floats() const { return Forms::floats(S::places, group, sources); }
  int64_t result_floats() const { return Forms::floats(S::sums, group, dst_channels); }
  int64_t group_forms() const { return pixel_floats() + result_floats(); }
  int64_t shared() const { return by_panels ? group_forms() : weight_floats(); }
  int64_t own() const { return by_panels ? weight_floats() : group_forms(); }
  Range tiles_of(const Chosen& chosen, int64_t i) const { return {i * group, std::min(group, chosen.count - i * group)}; }
  Forms pixels(float* at) const { return {at, group, sources}; }
  Forms results(float* at) const { return {at + pixel_floats(), group, dst_channels}; }
};

/// The inputs and outputs of a convolution.
template <class S, class T>
struct Convolution {
  const Geometry& g;
  const ConvolvePlan<S>& plan;
  WeightOrder order;
  const T* src;
  const float* weights;
  const Finish& finish;
  T* dst;
  bool streams, seeks;
  const Outside* outside;

  /// Sixteen bf16 are half a line, which memory takes whole.
  static constexpr bool streamable = std::is_same_v<T, float>;

  /// Returns true if all results of a tile are outside, or, without a mask, all pixels that it reads are 0. Then its results are written.
  bool skips(int64_t tile) const {
    const TileAt at = tile_at(plan.tiles, tile);
    if (outside) {
      if (pixels_outside(g, plan.tiles, at, *outside) < plan.tiles.rows.held(at.row) * plan.tiles.columns.held(at.column)) return false;
      clear_outside(at, {0, g.dst.channels});
      return true;
    }
    if (!image_of(g, plan.tiles, src, tile).empty(S::src_rows, tile_pixels + 2)) return false;
    write_level<S>(g, plan.tiles, at, finish, dst);
    return true;
  }

  /// Writes 0 to the results outside.
  void clear_outside(TileAt at, Range channels) const {
    each_outside(g, plan.tiles, at, *outside, [&](int64_t row, int64_t column) {
      clear_elements(dst + ((at.image * g.dst.rows + row) * g.dst.columns + column) * g.dst.channels + channels.first, channels.count);
    });
    end_stream();
  }

  template <class Body>
  int64_t each_part(Empty& empty, const Body& body) const {
    return winograd::each_part(
        plan.tiles.count, plan.group, seeks, empty, [this](int64_t tile) { return skips(tile); }, body);
  }

  void pixels(const Chosen& chosen, Range group, int64_t t, Range channels, const Forms& forms) const {
    image_forms<S>(g, plan.tiles, src, channels, chosen[group.first + t], t, forms);
  }

  /// Products of a group's pixels, of some channels, with the weights of `wide` results from `dst_channel` on: the first of a place sets,
  /// the others add.
  void multiply_group(const Forms& pixels, int64_t count, Range channels, const WeightForms& forms, int64_t dst_channel,
                      const Forms& results) const {
    const ASteps steps{block_width, 1, plan.group * block_width};
    const int64_t wide = std::min(plan.wide, plan.dst_channels - dst_channel);
    for (int p = 0; p < S::places; p++)
      for (int64_t at = 0; at < wide; at += panel_width)
        multiply_tile(pixels.place(p), steps, count, forms.panel(p, at), results.half(p % S::sums, 0, dst_channel + at),
                      channels.count / block_width, channels.first > 0 || p >= S::sums);
  }

  void write(const Chosen& chosen, Range group, const Forms& results, Range channels) const {
    for (int64_t t = 0; t < group.count; t++) {
      const TileAt at = tile_at(plan.tiles, chosen[group.first + t]);
      if constexpr (streamable)
        if (streams) {
          write_results<S, true>(g, plan.tiles, at, results, t, channels, finish, dst);
          continue;
        }
      write_results<S, false>(g, plan.tiles, at, results, t, channels, finish, dst);
    }
    if (streams) end_stream();
    for (int64_t t = 0; outside && t < group.count; t++) clear_outside(tile_at(plan.tiles, chosen[group.first + t]), channels);
  }
};

/// Each thread takes groups of tiles. Returns the number of computed tiles.
template <class S, class T>
int64_t convolve_groups(const Convolution<S, T>& c, int threads, float* scratch) {
  const ConvolvePlan<S>& plan = c.plan;
  const WeightForms forms{scratch, plan.src_channels, plan.dst_channels};
  const Range all{0, plan.src_channels};
  Empty empty;
  int64_t computed = 0;
#pragma omp parallel num_threads(threads)
  {
    float* const own = scratch + plan.shared() + omp_get_thread_num() * plan.own();
    const Forms pixels = plan.pixels(own), results = plan.results(own);
#pragma omp for schedule(static)
    for (int64_t dst = 0; dst < plan.dst_channels; dst += block_width) weight_forms<S>(c.g, c.order, c.weights, all, dst, forms, dst);
    const int64_t chosen_in_all = c.each_part(empty, [&](const Chosen& chosen) {
      const int64_t groups = over(chosen.count, plan.group);
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < groups; i++) {
        const Range group = plan.tiles_of(chosen, i);
        for (int64_t t = 0; t < group.count; t++) c.pixels(chosen, group, t, all, pixels);
        c.multiply_group(pixels, group.count, all, forms, 0, results);
        c.write(chosen, group, results, {0, c.g.dst.channels});
      }
    });
#pragma omp single
    computed = chosen_in_all;
  }
  return computed;
}

/// All threads share a group of tiles, and each takes panels of results; some channels of src after the others. Returns the number of
/// computed tiles.
template <class S, class T>
int64_t convolve_panels(const Convolution<S, T>& c, int threads, float* scratch) {
  const ConvolvePlan<S>& plan = c.plan;
  const Forms pixels = plan.pixels(scratch), results = plan.results(scratch);
  Empty empty;
  int64_t computed = 0;
#pragma omp parallel num_threads(threads)
  {
    const WeightForms forms{scratch + plan.shared() + omp_get_thread_num() * plan.own(), plan.sources, plan.wide};
    const int64_t chosen_in_all = c.each_part(empty, [&](const Chosen& chosen) {
      for (int64_t i = 0; i < over(chosen.count, plan.group); i++) {
        const Range group = plan.tiles_of(chosen, i);
        for (int64_t first = 0; first < plan.src_channels; first += plan.sources) {
          const Range src{first, std::min(plan.sources, plan.src_channels - first)};
#pragma omp for schedule(static)
          for (int64_t t = 0; t < group.count; t++) c.pixels(chosen, group, t, src, pixels);
#pragma omp for schedule(dynamic)
          for (int64_t dst = 0; dst < plan.dst_channels; dst += plan.wide) {
            const int64_t wide = std::min(plan.wide, plan.dst_channels - dst);
            for (int64_t at = 0; at < wide; at += block_width) weight_forms<S>(c.g, c.order, c.weights, src, dst + at, forms, at);
            c.multiply_group(pixels, group.count, src, forms, dst, results);
            if (first + src.count == plan.src_channels) c.write(chosen, group, results, {dst, std::min(wide, c.g.dst.channels - dst)});
          }
        }
      }
    });
#pragma omp single
    computed = chosen_in_all;
  }
  return computed;
}

template <class S, class T>
double convolve_by(const Geometry& g, int threads, bool seeks, const Outside* outside, Weights order, const T* src, const float* weights,
                   const Finish& finish, T* dst, void* scratch) {
  const ConvolvePlan<S> plan(g, threads);
  const int64_t bytes = g.batch * g.dst.rows * g.dst.columns * g.dst.channels * int64_t(sizeof(T));
  const bool whole_lines = g.dst.channels % block_width == 0 && reinterpret_cast<uintptr_t>(dst) % sizeof(Block) == 0;
  const bool streams = Convolution<S, T>::streamable && whole_lines && bytes > streamed_bytes;
  const Convolution<S, T> convolution{g, plan, weight_order(g, order), src, weights, finish, dst, streams, seeks, outside};
  const auto run = plan.by_panels ? convolve_panels<S, T> : convolve_groups<S, T>;
  return 1 - double(run(convolution, threads, static_cast<float*>(scratch))) / double(plan.tiles.count);
}

}  // namespace

int64_t products(const Geometry& g) { return std::min(products_of<Squares>(g), products_of<Rows>(g)); }

int64_t products_of_windows(const Geometry& g) {
  const auto along = [](const Sight& s, int64_t src, int64_t dst) {
    int64_t met = 0;
    for (int64_t position = 0, at = s.shift; position < 3; position++, at += s.step)
      met += std::max<int64_t>(0, std::min(dst, src - at) - std::max<int64_t>(0, -at));
    return met;
  };
  return g.batch * along(g.rows, g.src.rows, g.dst.rows) * along(g.columns, g.src.columns, g.dst.columns);
}

int64_t convolve_bytes(const Geometry& g, int threads) {
  return by_tiles(g, [&](auto tiles) {
    const ConvolvePlan<decltype(tiles)> plan(g, threads);
    return (plan.shared() + threads * plan.own()) * int64_t(sizeof(float));
  });
}

template <class T>
double convolve(const Geometry& g, int threads, bool seeks, const Outside* outside, Weights order, const T* src, const float* weights,
                const Finish& finish, T* dst, void* scratch) {
  return by_tiles(
      g, [&](auto tiles) { return convolve_by<decltype(tiles)>(g, threads, seeks, outside, order, src, weights, finish, dst, scratch); });
}

template double convolve(const Geometry&, int, bool, const Outside*, Weights, const float*, const float*, const Finish&, float*, void*);
template double convolve(const Geometry&, int, bool, const Outside*, Weights, const Bf16*, const float*, const Finish&, Bf16*, void*);

}  // namespace spillway::cpu::winograd
