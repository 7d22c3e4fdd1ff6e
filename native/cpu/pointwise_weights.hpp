// The weights of a 1x1 convolution between PyTorch's order [O][I] and the panels that oneDNN's kernels read, [O/width][I][width].
// Each line of memory is read once and turned in registers: where rows lie a power of two apart, a walk along columns would find
// them all in one set of the cache.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>

#include "cpu/tile_product.hpp"

namespace spillway::cpu::pointwise_weights {

/// The width of the panels that `wanted` holds such weights in, if memory `ours` holds them in rows; else 0.
inline int64_t panel_width_of(const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted) {
  using tag = dnnl::memory::format_tag;
  const dnnl::memory::dims d = ours.dims();
  if (d.size() != 4 || d[2] * d[3] != 1 || d[0] % block_width != 0 || d[1] % block_width != 0) return 0;
  const auto in = [&d](tag format) { return dnnl::memory::desc(d, dnnl::memory::data_type::f32, format); };
  if (ours != in(tag::oihw)) return 0;
  if (wanted == in(tag::OIhw16i16o)) return block_width;  // blocks of 16 x 16, one after the other, are panels of 16
  for (const auto& [format, width] : {std::pair{tag::Ohwi32o, 32}, {tag::Ohwi48o, 48}, {tag::Ohwi64o, 64}})
    if (wanted == in(format)) return width;
  return 0;
}

/// Swaps, between blocks `step` apart, the lanes `step` apart.
template <int step>
void exchange(Block (&rows)[block_width]) {
  using Lanes = int __attribute__((vector_size(64)));
  Lanes low{}, high{};
#pragma GCC unroll 16
  for (int lane = 0; lane < block_width; lane++) {
    low[lane] = lane & step ? block_width + (lane ^ step) : lane;
    high[lane] = lane & step ? block_width + lane : lane | step;
  }
#pragma GCC unroll 16
  for (int row = 0; row < block_width; row++) {
    if (row & step) continue;
    const Block a = rows[row], b = rows[row | step];
    rows[row] = __builtin_shuffle(a, b, low);
    rows[row | step] = __builtin_shuffle(a, b, high);
  }
}

/// One block of 16 x 16 from rows `from_step` apart to rows `to_step` apart, turned around.
inline void turn(const float* from, int64_t from_step, float* to, int64_t to_step) {
  Block rows[block_width];
#pragma GCC unroll 16
  for (int row = 0; row < block_width; row++) rows[row] = load_block(from + row * from_step);
  exchange<1>(rows);
  exchange<2>(rows);
  exchange<4>(rows);
  exchange<8>(rows);
#pragma GCC unroll 16
  for (int row = 0; row < block_width; row++) store_block(to + row * to_step, rows[row]);
}

/// Between rows and panels, whichever way. Channels of the last panel that are not there are zero.
inline void reorder(const dnnl::memory::dims& dims, int64_t width, float* rows, float* panels, bool into_rows) {
  const int64_t out = dims[0], in = dims[1];
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t o = 0; o < rounded_up(out, width); o += block_width)
    for (int64_t i = 0; i < in; i += block_width) {
      float* const panel = panels + o / width * width * in + i * width + o % width;
      if (o < out) into_rows ? turn(panel, width, rows + o * in + i, in) : turn(rows + o * in + i, in, panel, width);
      else if (!into_rows)
        for (int64_t k = 0; k < block_width; k++) store_block(panel + k * width, Block{});
    }
}

}  // namespace spillway::cpu::pointwise_weights
