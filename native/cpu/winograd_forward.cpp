// Three stages for each group of tiles: forms of the pixels, products at each of the 36 places, results of the forms. Threads
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
/// Results larger than this are not in the caches any more when they are read.
constexpr int64_t streamed_bytes = 16 << 20;

struct ConvolvePlan {
  Tiles tiles;
  int64_t src_channels, dst_channels, group, groups;
  bool by_panels;
  ConvolvePlan(const Geometry& g, int threads)
      : tiles(g), src_channels(rounded_up(g.src.channels, block_width)), dst_channels(rounded_up(g.dst.channels, panel_width)),
        by_panels(WeightForms::floats(src_channels, dst_channels) > most_weight_floats) {
    const int64_t wanted = by_panels ? std::clamp(shared_floats / places / src_channels, least_tiles, most_shared_tiles)
                                     : std::clamp(group_floats / places / (src_channels + dst_channels), least_tiles, most_tiles);
    groups = over(tiles.count, wanted);
    if (!by_panels) groups = rounded_up(groups, threads);
    group = rounded_up(over(tiles.count, groups), most_rows);
    groups = over(tiles.count, group);
  }
  /// Channels of dst whose weights and results are held at once.
  int64_t dst_held() const { return by_panels ? panel_width : dst_channels; }
  int64_t weight_floats() const { return WeightForms::floats(src_channels, dst_held()); }
  int64_t pixel_floats() const { return Forms::floats(group, src_channels); }
  int64_t result_floats() const { return Forms::floats(group, dst_held()); }
  int64_t shared() const { return by_panels ? pixel_floats() : weight_floats(); }
  int64_t own() const { return result_floats() + (by_panels ? weight_floats() : pixel_floats()); }
  Range tiles_of(int64_t i) const { return {i * group, std::min(group, tiles.count - i * group)}; }
};

/// What a convolution reads and writes.
template <class T>
struct Convolution {
  const Geometry& g;
  const ConvolvePlan& plan;
  WeightOrder order;
  const T* src;
  const float* weights;
  const Finish& finish;
  T* dst;
  bool streams;

  /// Sixteen bf16 are half a line, which memory takes whole.
  static constexpr bool streamable = std::is_same_v<T, float>;

  void pixels(Range group, int64_t t, const Forms& forms) const { image_forms(g, plan.tiles, src, group.first, t, forms); }

  /// Products of a group with one panel; results begin at `at`.
  void multiply_group(const Forms& pixels, int64_t count, const WeightForms& forms, int64_t at, const Forms& results) const {
    const ASteps steps{block_width, 1, plan.group * block_width};
    for (int p = 0; p < places; p++)
      multiply_tile(pixels.place(p), steps, count, forms.panel(p, at), results.half(p, 0, at), plan.src_channels / block_width, false);
  }

  void write(Range group, const Forms& results, Range channels) const {
    for (int64_t t = 0; t < group.count; t++) {
      const TileAt at = tile_at(plan.tiles, group.first + t);
      if constexpr (streamable)
        if (streams) {
          write_results<true>(g, at, results, t, channels, finish, dst);
          continue;
        }
      write_results<false>(g, at, results, t, channels, finish, dst);
    }
    if (streams) end_stream();
  }
};

/// Each thread takes groups of tiles.
template <class T>
void convolve_groups(const Convolution<T>& c, int threads, float* scratch) {
  const ConvolvePlan& plan = c.plan;
  const WeightForms forms{scratch, plan.src_channels, plan.dst_channels};
#pragma omp parallel num_threads(threads)
  {
    float* const own = scratch + plan.shared() + omp_get_thread_num() * plan.own();
    const Forms pixels{own, plan.group, plan.src_channels}, results{own + plan.pixel_floats(), plan.group, plan.dst_channels};
#pragma omp for schedule(static)
    for (int64_t dst = 0; dst < plan.dst_channels; dst += block_width) weight_forms(c.g, c.order, c.weights, dst, forms, dst);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < plan.groups; i++) {
      const Range group = plan.tiles_of(i);
      for (int64_t t = 0; t < group.count; t++) c.pixels(group, t, pixels);
      for (int64_t at = 0; at < plan.dst_channels; at += panel_width) c.multiply_group(pixels, group.count, forms, at, results);
      c.write(group, results, {0, c.g.dst.channels});
    }
  }
}

/// All threads share a group of tiles, and each takes panels of results.
template <class T>
void convolve_panels(const Convolution<T>& c, int threads, float* scratch) {
  const ConvolvePlan& plan = c.plan;
  const Forms pixels{scratch, plan.group, plan.src_channels};
#pragma omp parallel num_threads(threads)
  {
    float* const own = scratch + plan.shared() + omp_get_thread_num() * plan.own();
    const WeightForms forms{own, plan.src_channels, panel_width};
    const Forms results{own + plan.weight_floats(), plan.group, panel_width};
    for (int64_t i = 0; i < plan.groups; i++) {
      const Range group = plan.tiles_of(i);
#pragma omp for schedule(static)
      for (int64_t t = 0; t < group.count; t++) c.pixels(group, t, pixels);
#pragma omp for schedule(dynamic)
      for (int64_t panel = 0; panel < plan.dst_channels; panel += panel_width) {
        for (int64_t at = 0; at < panel_width; at += block_width) weight_forms(c.g, c.order, c.weights, panel + at, forms, at);
        c.multiply_group(pixels, group.count, forms, 0, results);
        c.write(group, results, {panel, std::min(panel_width, c.g.dst.channels - panel)});
      }
    }
  }
}

}  // namespace

int64_t convolve_bytes(const Geometry& g, int threads) {
  const ConvolvePlan plan(g, threads);
  return (plan.shared() + threads * plan.own()) * int64_t(sizeof(float));
}

template <class T>
void convolve(const Geometry& g, int threads, Weights order, const T* src, const float* weights, const Finish& finish, T* dst, void* scratch) {
  const ConvolvePlan plan(g, threads);
  const int64_t bytes = g.batch * g.dst.rows * g.dst.columns * g.dst.channels * int64_t(sizeof(T));
  const bool whole_lines = g.dst.channels % block_width == 0 && reinterpret_cast<uintptr_t>(dst) % sizeof(Block) == 0;
  const bool streams = Convolution<T>::streamable && whole_lines && bytes > streamed_bytes;
  const Convolution<T> convolution{g, plan, weight_order(g, order), src, weights, finish, dst, streams};
  (plan.by_panels ? convolve_panels<T> : convolve_groups<T>)(convolution, threads, static_cast<float*>(scratch));
}

template void convolve(const Geometry&, int, Weights, const float*, const float*, const Finish&, float*, void*);
template void convolve(const Geometry&, int, Weights, const Bf16*, const float*, const Finish&, Bf16*, void*);

}  // namespace spillway::cpu::winograd
