// The weights of a 1x1 convolution between PyTorch's order [O][I] and the panels that oneDNN's kernels read: [O/width][I][width], of bf16
// [O/width][I/2][width][2] or, towards x, [I/16][O/16][8][16][2]. Each line of memory is read once and turned in registers: where rows
// lie a power of two apart, a walk along columns would find them all in one set of the cache.
#pragma once
#include "cpu/onednn_version.hpp"
#include "cpu/tile_product.hpp"
#include "cpu/turned_blocks.hpp"

namespace spillway::cpu::pointwise_weights {

struct Panels {
  enum class Kind { none, floats, bf16, bf16_towards_x };
  Kind kind = Kind::none;
  int64_t width = 0;
};

/// The panels that `wanted` holds such weights in, if memory `ours` holds them in rows.
inline Panels panels_of(const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted) {
  using tag = dnnl::memory::format_tag;
  using type = dnnl::memory::data_type;
  const dnnl::memory::dims d = dims_of(ours);
  if (d.size() != 4 || d[2] * d[3] != 1 || d[0] % block_width != 0 || d[1] % block_width != 0) return {};
  if (ours != dnnl::memory::desc(d, type::f32, tag::oihw)) return {};
  const auto in = [&](type t, tag format) { return wanted == dnnl::memory::desc(d, t, format); };
  if (in(type::f32, tag::OIhw16i16o))
    return {Panels::Kind::floats, block_width};  // blocks of 16 x 16, one after the other, are panels of 16
  if (in(type::bf16, tag::IOhw8o16i2o)) return {Panels::Kind::bf16_towards_x, block_width};
  for (const auto& [format, width] : {std::pair{tag::Ohwi32o, 32}, {tag::Ohwi48o, 48}, {tag::Ohwi64o, 64}})
    if (in(type::f32, format)) return {Panels::Kind::floats, width};
  for (const auto& [format, width] : {std::pair{tag::OhwI16o2i, 16}, {tag::OhwI32o2i, 32}, {tag::OhwI48o2i, 48}, {tag::OhwI64o2i, 64}})
    if (in(type::bf16, format)) return {Panels::Kind::bf16, width};
  return {};
}

/// Sixteen by sixteen weights from rows `step` apart to bf16: pairs of rows or of columns, each pair's lanes side by side.
inline void bf16_rows(const float* from, int64_t step, Bf16* to) {
  for (int64_t row = 0; row < block_width; row += 2)
    store_pairs(to + row * block_width, load_block(from + row * step), load_block(from + (row + 1) * step));
}
inline void bf16_columns(const float* from, int64_t step, Bf16* to, int64_t to_step) {
  Square16 columns;
  load_square(from, step, columns);
  turn(columns);
#pragma GCC unroll 8
  for (int64_t i = 0; i < block_width; i += 2) store_pairs(to + i / 2 * to_step, columns[i], columns[i + 1]);
}

/// From rows into panels. Channels of the last panel that are not there are zero.
inline void into_panels(const dnnl::memory::dims& dims, Panels p, const float* rows, void* panels) {
  const int64_t out = dims[0], in = dims[1];
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t o = 0; o < rounded_up(out, p.width); o += block_width)
    for (int64_t i = 0; i < in; i += block_width) {
      const float* const from = rows + o * in + i;
      const int64_t at = o / p.width * p.width * in + i * p.width, across = o % p.width;
      float* const panel = static_cast<float*>(panels) + at + across;
      Bf16* const bf16 = static_cast<Bf16*>(panels) + at + 2 * across;
      switch (p.kind) {
        case Panels::Kind::none:
          break;
        case Panels::Kind::floats:
          if (o < out)
            turn(from, in, panel, p.width);
          else
            for (int64_t k = 0; k < block_width; k++) store_block(panel + k * p.width, Block{});
          break;
        case Panels::Kind::bf16:
          if (o < out)
            bf16_columns(from, in, bf16, 2 * p.width);
          else
            for (int64_t k = 0; k < block_width; k += 2) store_pairs(bf16 + k * p.width, Block{}, Block{});
          break;
        case Panels::Kind::bf16_towards_x:
          bf16_rows(from, in, static_cast<Bf16*>(panels) + i * out + o * block_width);
          break;
      }
    }
}

/// From panels of floats into rows.
inline void into_rows(const dnnl::memory::dims& dims, Panels p, const float* panels, float* rows) {
  const int64_t out = dims[0], in = dims[1];
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t o = 0; o < out; o += block_width)
    for (int64_t i = 0; i < in; i += block_width)
      turn(panels + o / p.width * p.width * in + i * p.width + o % p.width, p.width, rows + o * in + i, in);
}

}  // namespace spillway::cpu::pointwise_weights
