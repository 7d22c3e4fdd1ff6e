// Small matrix products in registers: C (+)= A·B for a few rows and 32 columns, the innermost step of convolutions.
// In: B as rows of 32 floats without gaps; A by the steps from row to row, from k to k inside a block of 16, and from block
// to block, so that either side of a product may be the one that lies by blocks. Out: C, rows of 32 floats.
// Invariant: k runs in order, so the bits do not depend on who computes which rows.
#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "cpu/blocks.hpp"

namespace spillway::cpu {

/// Columns of a product.
constexpr int64_t panel_width = 2 * block_width;

constexpr int64_t over(int64_t n, int64_t by) { return (n + by - 1) / by; }
constexpr int64_t rounded_up(int64_t n, int64_t to) { return over(n, to) * to; }

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

using Multiply = void (*)(const float*, ASteps, const float*, float*, int64_t, bool);

/// By number of rows.
constexpr auto multiply_table = []<size_t... rows>(std::index_sequence<rows...>) {
  return std::array<Multiply, sizeof...(rows)>{multiply_panel<int(rows) + 1>...};
}(std::make_index_sequence<most_rows>());

/// C (+)= A·B for any number of rows.
inline void multiply_tile(const float* a, ASteps step, int64_t rows, const float* b, float* c, int64_t k_blocks, bool add) {
  for (int64_t row = 0; row < rows; row += most_rows)
    multiply_table[size_t(std::min<int64_t>(most_rows, rows - row) - 1)](a + row * step.row, step, b, c + row * panel_width, k_blocks, add);
}

}  // namespace spillway::cpu
