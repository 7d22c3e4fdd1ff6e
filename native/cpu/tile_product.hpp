// Small matrix products in registers: C (+)= A·B for a few rows and 32 columns, the innermost step of Winograd convolution.
// In: B as rows of 32 floats without gaps; A by the steps from row to row, from k to k inside a block of 16, and from block
// to block, so that either side of a product may be the one that lies by blocks. Out: C, rows of 32 floats.
// Invariant: k runs in order, so the bits do not depend on who computes which rows.
#pragma once
#include <cstdint>
#include <cstring>

namespace spillway::cpu {

/// Channels come in blocks of this many.
constexpr int64_t block_width = 16;
/// Columns of a product.
constexpr int64_t panel_width = 2 * block_width;

/// Sixteen floats; the compiler splits them where the machine is narrower.
using Block = float __attribute__((vector_size(64)));

inline Block load_block(const float* from) {
  Block b;
  std::memcpy(&b, from, sizeof b);
  return b;
}
inline void store_block(float* to, const Block& b) { std::memcpy(to, &b, sizeof b); }

#ifdef __AVX512F__
constexpr int most_rows = 14, panel_blocks_at_once = 2;
#else
constexpr int most_rows = 4, panel_blocks_at_once = 1;
#endif

struct ASteps {
  int64_t row, k, block;
};

/// `rows` rows of one half (or all) of a panel; `k_blocks` times 16 terms.
template <int rows, int blocks>
void multiply_rows(const float* a, ASteps step, const float* b, float* c, int64_t k_blocks, bool add) {
  Block sum[rows][blocks];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int j = 0; j < blocks; j++) sum[r][j] = add ? load_block(c + r * panel_width + j * block_width) : Block{};
  for (int64_t kb = 0; kb < k_blocks; kb++, a += step.block) {
    const float* at = a;
    for (int k = 0; k < block_width; k++, at += step.k, b += panel_width) {
      Block right[blocks];
#pragma GCC unroll 2
      for (int j = 0; j < blocks; j++) right[j] = load_block(b + j * block_width);
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) {
        const float left = at[r * step.row];
#pragma GCC unroll 2
        for (int j = 0; j < blocks; j++) sum[r][j] += left * right[j];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int j = 0; j < blocks; j++) store_block(c + r * panel_width + j * block_width, sum[r][j]);
}

template <int rows>
void multiply_panel(const float* a, ASteps step, const float* b, float* c, int64_t k_blocks, bool add) {
  for (int j = 0; j < 2; j += panel_blocks_at_once)
    multiply_rows<rows, panel_blocks_at_once>(a, step, b + j * block_width, c + j * block_width, k_blocks, add);
}

}  // namespace spillway::cpu
