// The weight gradient: threads share the forms of a group of tiles; each takes some channels of src and a panel of dst, sums
// their products at each of the places and adds the weights that these stand for.
#include <omp.h>

#include "cpu/winograd_forms.hpp"

namespace spillway::cpu::winograd {
namespace {

/// Few tiles would pass over the weights too often.
constexpr int64_t least_terms = 96, most_terms = 1024, gradient_rows = 8;
/// Sums of one thread at a time should stay in its cache: those between this number of channels of src and a panel of
/// dst.
constexpr int64_t most_sources = 64;

template <class S>
struct GradientPlan {
  Tiles tiles;
  int64_t src_channels, dst_channels, group;
  explicit GradientPlan(const Geometry& g)
      : tiles(g, S::rows), src_channels(rounded_up(g.src.channels, block_width)), dst_channels(rounded_up(g.dst.channels, panel_width)) {
    const int64_t wanted = std::clamp(shared_floats / (S::places * src_channels + S::sums * dst_channels), least_terms, most_terms);
    group = rounded_up(over(tiles.count, over(tiles.count, wanted)), block_width);
  }
  int64_t sources() const { return std::min(src_channels, most_sources); }
  int64_t pixel_floats() const { return Forms::floats(S::places, group, src_channels); }
  int64_t gradient_floats() const { return Forms::floats(S::sums, group, dst_channels); }
  int64_t own() const { return WeightForms::floats(S::places, sources(), panel_width); }
};

/// Both forms of the tile at a place of its group; behind the last tile, nothing.
template <class S, class T>
void both_forms(const Geometry& g, const GradientPlan<S>& plan, const T* src, const T* ddst, const Chosen& chosen, int64_t first, int64_t t,
                const Forms& pixels, const Forms& gradients) {
  if (first + t < chosen.count) {
    image_forms<S>(g, plan.tiles, src, {0, pixels.channels}, chosen[first + t], t, pixels);
    gradient_forms<S>(g, plan.tiles, ddst, chosen[first + t], t, gradients);
  } else {
    no_blocks(S::places, t, pixels);
    no_forms(S::sums, t, gradients);
  }
}

/// The weights between `src.count` channels of src and a panel of dst, as far as one group gives them.
template <class S>
void add_gradient(const Geometry& g, const Forms& pixels, const Forms& gradients, int64_t terms, Range src, int64_t panel, bool add,
                  const WeightForms& sums, float* dw) {
  const ASteps steps{1, block_width, block_width * block_width};
  for (int p = 0; p < S::places; p++)
    for (int64_t c = 0; c < src.count; c += gradient_rows)
      multiply_panel<gradient_rows>(pixels.block(p, 0, (src.first + c) / block_width * block_width) + c % block_width, steps,
                                    gradients.half(p % S::sums, 0, panel), sums.half(p, c, 0), terms / block_width, false);
  const Range held{src.first, std::min(src.count, g.src.channels - src.first)};
  for (int64_t at = 0; at < panel_width && panel + at < g.dst.channels; at += block_width)
    weights_of_forms<S>(g, sums, held, panel + at, at, add, dw);
}

template <class S, class T>
double weight_gradient_by(const Geometry& g, int threads, bool seeks, const Outside* outside, const T* src, const T* ddst, float* dw,
                          void* scratch) {
  const GradientPlan<S> plan(g);
  float* const floats = static_cast<float*>(scratch);
  const Forms pixels{floats, plan.group, plan.src_channels}, gradients{floats + plan.pixel_floats(), plan.group, plan.dst_channels};
  const auto is_empty = [&](int64_t tile) {
    const TileAt at = tile_at(plan.tiles, tile);
    const int64_t held = plan.tiles.rows.held(at.row) * plan.tiles.columns.held(at.column);
    return (outside && pixels_outside(g, plan.tiles, at, *outside) == held) ||
           gradient_of(g, plan.tiles, ddst, tile).empty(S::rows, tile_pixels) ||
           image_of(g, plan.tiles, src, tile).empty(S::src_rows, tile_pixels + 2);
  };
  Empty empty;
  int64_t computed = 0;
#pragma omp parallel num_threads(threads)
  {
    float* const own = floats + plan.pixel_floats() + plan.gradient_floats() + omp_get_thread_num() * plan.own();
    const WeightForms sums{own, plan.sources(), panel_width};
    bool is_begun = false;
    const int64_t chosen_in_all = each_part(plan.tiles.count, plan.group, seeks, empty, is_empty, [&](const Chosen& chosen) {
      for (int64_t first = 0; first < chosen.count; first += plan.group) {
        const int64_t terms = rounded_up(std::min(plan.group, chosen.count - first), block_width);
#pragma omp for schedule(static)
        for (int64_t t = 0; t < terms; t++) both_forms(g, plan, src, ddst, chosen, first, t, pixels, gradients);
#pragma omp for schedule(dynamic) collapse(2)
        for (int64_t panel = 0; panel < plan.dst_channels; panel += panel_width)
          for (int64_t c = 0; c < plan.src_channels; c += plan.sources())
            add_gradient<S>(g, pixels, gradients, terms, {c, std::min(plan.sources(), plan.src_channels - c)}, panel, is_begun, sums, dw);
        is_begun = true;
      }
    });
#pragma omp single
    computed = chosen_in_all;
  }
  if (computed == 0) std::fill_n(dw, g.dst.channels * g.src.channels * taps_of_weight, 0.0f);
  return 1 - double(computed) / double(plan.tiles.count);
}

}  // namespace

int64_t weight_gradient_bytes(const Geometry& g, int threads) {
  return by_tiles(g, [&](auto tiles) {
    const GradientPlan<decltype(tiles)> plan(g);
    return (plan.pixel_floats() + plan.gradient_floats() + threads * plan.own()) * int64_t(sizeof(float));
  });
}

template <class T>
double weight_gradient(const Geometry& g, int threads, bool seeks, const Outside* outside, const T* src, const T* ddst, float* dw,
                       void* scratch) {
  return by_tiles(g, [&](auto tiles) { return weight_gradient_by<decltype(tiles)>(g, threads, seeks, outside, src, ddst, dw, scratch); });
}

template double weight_gradient(const Geometry&, int, bool, const Outside*, const float*, const float*, float*, void*);
template double weight_gradient(const Geometry&, int, bool, const Outside*, const Bf16*, const Bf16*, float*, void*);

}  // namespace spillway::cpu::winograd
