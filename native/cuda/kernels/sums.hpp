// Sums of many terms in a fixed order: items (share, column) add up every `shares`-th term in double, then sixteen partial
// sums at a time become one. In: terms by number and column. Out: `Sums` totals for each column, the same bits each time.
// Worked example: 1000 pixels of 64 channels: 32 shares of 31 or 32 pixels each, two sums of sixteen, one of two.
#pragma once
#include <algorithm>

#include "cuda/kernels/exec.hpp"

namespace spillway::cuda {

constexpr int64_t MERGED = 16;

/// As many as keep a large GPU busy, each with enough terms to be worth its memory.
inline int64_t sum_shares(int64_t terms, int64_t columns) {
  constexpr int64_t ITEMS = 262144, LEAST_TERMS = 32;
  return std::max<int64_t>(1, std::min(terms / LEAST_TERMS, ITEMS / std::max<int64_t>(1, columns)));
}

/// Bytes of scratch: each level's partial sums behind the last one's.
template <int Sums>
int64_t sums_bytes(int64_t terms, int64_t columns) {
  int64_t rows = 0;
  for (int64_t shares = sum_shares(terms, columns); ; shares = (shares + MERGED - 1) / MERGED) {
    rows += shares;
    if (shares == 1) return rows * Sums * columns * int64_t(sizeof(double));
  }
}

/// term(number, column, sums) adds to sums[0 .. Sums). The totals lie at the returned address: sum after sum, column by column.
template <int Sums, class Exec, class Term>
const double* sums_of(Exec& exec, int64_t terms, int64_t columns, void* scratch, Term term) {
  int64_t shares = sum_shares(terms, columns);
  double* from = static_cast<double*>(scratch);
  const uint32_t width = uint32_t(columns), step = uint32_t(shares), end = uint32_t(terms);
  exec.each(shares * columns, [=] SPILLWAY_BOTH(uint32_t i) {
    const uint32_t share = i / width, column = i % width;
    double sum[Sums] = {};
    for (uint32_t n = share; n < end; n += step) term(n, column, sum);
    for (int s = 0; s < Sums; s++) from[(int64_t(share) * Sums + s) * width + column] = sum[s];
  });
  const int64_t row = Sums * columns;
  while (shares > 1) {
    const int64_t fewer = (shares + MERGED - 1) / MERGED, all = shares;
    const double* const partial = from;
    double* const merged = from + shares * row;
    exec.each(fewer * row, [=] SPILLWAY_BOTH(uint32_t i) {
      const int64_t first = i / row * MERGED, place = i % row, last = first + MERGED < all ? first + MERGED : all;
      double sum = 0;
      for (int64_t k = first; k < last; k++) sum += partial[k * row + place];
      merged[i] = sum;
    });
    from = merged;
    shares = fewer;
  }
  return from;
}

}  // namespace spillway::cuda
