// Transposes sixteen rows of sixteen floats in registers. In: rows in memory. Out: their columns as rows. If weights are in PyTorch's
// order and kernels need channels side by side, this reads and writes whole lines; single floats take several times as long.
#pragma once
#include <utility>

#include "cpu/blocks.hpp"

namespace spillway::cpu {

using Square16 = Block[block_width];

/// Lanes of two blocks side by side, by their numbers: those of the second count on from block_width.
template <size_t... lanes>
Block lanes_of(const Block& a, const Block& b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, lanes...);
#else
  return __builtin_shuffle(a, b, (int __attribute__((vector_size(64)))){lanes...});
#endif
}

/// Swaps, between blocks `step` apart, the lanes `step` apart.
template <int step, size_t... lanes>
void exchange(Square16& rows, std::index_sequence<lanes...>) {
#pragma GCC unroll 16
  for (int row = 0; row < block_width; row++) {
    if (row & step) continue;
    const Block a = rows[row], b = rows[row | step];
    rows[row] = lanes_of<(lanes & step ? block_width + (lanes ^ step) : lanes)...>(a, b);
    rows[row | step] = lanes_of<(lanes & step ? block_width + lanes : lanes | step)...>(a, b);
  }
}
template <int step>
void exchange(Square16& rows) {
  exchange<step>(rows, std::make_index_sequence<block_width>());
}

inline void turn(Square16& rows) {
  exchange<1>(rows);
  exchange<2>(rows);
  exchange<4>(rows);
  exchange<8>(rows);
}

inline void load_square(const float* from, int64_t step, Square16& rows) {
#pragma GCC unroll 16
  for (int row = 0; row < block_width; row++) rows[row] = load_block(from + row * step);
}

/// From rows `from_step` apart; `write(row, block)` takes a former column.
template <class Write>
inline void turn(const float* from, int64_t from_step, const Write& write) {
  Square16 rows;
  load_square(from, from_step, rows);
  turn(rows);
#pragma GCC unroll 16
  for (int row = 0; row < block_width; row++) write(row, rows[row]);
}

/// To rows `to_step` apart.
inline void turn(const float* from, int64_t from_step, float* to, int64_t to_step) {
  turn(from, from_step, [&](int row, const Block& b) { store_block(to + row * to_step, b); });
}

}  // namespace spillway::cpu
