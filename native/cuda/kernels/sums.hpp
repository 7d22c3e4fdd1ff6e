// Sums of many terms in a fixed order, in one launch. A block has some columns and a share of their terms: its items add up terms in
// double, then each other's sums; of the blocks that have the same columns the last to arrive adds up all of theirs. In: terms by number
// and column. Out: finish(column, totals), the same bits each time, whichever block is last.
// Worked example: 802816 pixels of 64 channels of bf16: 256 blocks of 8 items side by side (8 channels each) and 32 below each other.
#pragma once
#include <algorithm>
#include <utility>

#include "cuda/kernels/boxes.hpp"

namespace spillway::cuda {

/// Blocks that share the terms of a column: as many as keep a large GPU busy, each with enough of them to be worth its memory.
inline int64_t sum_shares(int64_t terms, int64_t columns) {
  constexpr int64_t COLUMNS_AT_ONCE = 32768, MOST = 256, LEAST_TERMS = 128;
  return std::max<int64_t>(1, std::min({MOST, COLUMNS_AT_ONCE / std::max<int64_t>(1, columns), terms / LEAST_TERMS}));
}

/// Bytes of scratch: a row of sums for each share, and one of totals.
template <int Sums>
int64_t sums_bytes(int64_t terms, int64_t columns) {
  const int64_t shares = sum_shares(terms, columns);
  return (shares > 1 ? shares + 1 : 1) * Sums * columns * int64_t(sizeof(double));
}

/// The number of items of a block side by side, with LANES columns each: a line of memory.
template <int LANES>
constexpr uint32_t MOST_ACROSS = LANES > 1 ? 8 : 32;
template <int LANES>
uint32_t items_across(int64_t columns) {
  uint32_t across = 1;
  while (across < MOST_ACROSS<LANES> && across * LANES < columns) across *= 2;
  return across;
}

/// `term` has start<LANES>(column), made once for the items of a block that have the same columns, and add<LANES>(start, number, column,
/// sums) for LANES columns side by side.
template <int Sums, int LANES, class Term, class Finish>
struct ColumnSums {
  static constexpr int PHASES = 8;
  static constexpr uint32_t PLANES = LANES * Sums, CHUNK = 16;
  using Start = decltype(std::declval<const Term&>().template start<LANES>(uint32_t(0)));
  struct Shared {
    double at[PLANES * BLOCK_ITEMS];
    Start starts[MOST_ACROSS<LANES>];
    bool is_last;
  };
  uint32_t terms, columns, across, blocks_across, shares;
  double* partial;
  uint32_t* arrivals;
  Term term;
  Finish finish;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t group = block % blocks_across, share = block / blocks_across;
    const uint32_t x = item % across, row = item / across, column = (group * across + x) * LANES;
    if constexpr (phase == 0) {
      if (item < across && column < columns) shared.starts[x] = term.template start<LANES>(column);
    }
    if constexpr (phase == 1) gather(shared, x, column, share * rows() + row, item);
    if constexpr (phase == 2) merge_chunks(shared, item);
    if constexpr (phase == 3) hand_over(shared, group, share, item, shares == 1);
    if constexpr (phase == 4) {
      if (item == 0) shared.is_last = shares > 1 && arrives_last(arrivals + group, shares);
    }
    if constexpr (phase > 4) {
      if (!shared.is_last) return;
      if constexpr (phase == 5) gather_shares(shared, column, row, item);
      if constexpr (phase == 6) merge_chunks(shared, item);
      if constexpr (phase == 7) hand_over(shared, group, share, item, true);
    }
  }

 private:
  SPILLWAY_BOTH uint32_t rows() const { return BLOCK_ITEMS / across; }

  SPILLWAY_BOTH void keep(Shared& shared, const double (&sum)[LANES][Sums], uint32_t item) const {
    for (int lane = 0; lane < LANES; lane++)
      for (int s = 0; s < Sums; s++) shared.at[uint32_t(s * LANES + lane) * BLOCK_ITEMS + item] = sum[lane][s];
  }

  SPILLWAY_BOTH void gather(Shared& shared, uint32_t x, uint32_t column, uint32_t first, uint32_t item) const {
    double sum[LANES][Sums] = {};
    if (column < columns) {
      const Start start = shared.starts[x];
      const uint32_t step = shares * rows();
      SPILLWAY_UNROLL(4)  // what four of them read is under way at once
      for (uint32_t n = first; n < terms; n += step) term.template add<LANES>(start, n, column, sum);
    }
    keep(shared, sum, item);
  }

  SPILLWAY_BOTH void gather_shares(Shared& shared, uint32_t column, uint32_t row, uint32_t item) const {
    double sum[LANES][Sums] = {};
    if (column < columns)
      for (uint32_t share = row; share < shares; share += rows())
        for (int lane = 0; lane < LANES; lane++)
          for (int s = 0; s < Sums; s++)
            sum[lane][s] += of_other_blocks(partial + (int64_t(share) * Sums + s) * columns + column + uint32_t(lane));
    keep(shared, sum, item);
  }

  /// Sixteen rows become their first.
  SPILLWAY_BOTH void merge_chunks(Shared& shared, uint32_t item) const {
    const uint32_t chunks = (rows() + CHUNK - 1) / CHUNK;
    for (uint32_t i = item; i < PLANES * across * chunks; i += BLOCK_ITEMS) {
      const uint32_t x = i % across, first = i / across % chunks * CHUNK, last = first + CHUNK < rows() ? first + CHUNK : rows();
      double* const plane = shared.at + i / across / chunks * BLOCK_ITEMS + x;
      double sum = plane[first * across];
      for (uint32_t row = first + 1; row < last; row++) sum += plane[row * across];
      plane[first * across] = sum;
    }
  }

  SPILLWAY_BOTH void hand_over(const Shared& shared, uint32_t group, uint32_t share, uint32_t item, bool is_total) const {
    for (uint32_t i = item; i < across * LANES; i += BLOCK_ITEMS) {
      const uint32_t column = group * across * LANES + i;
      if (column >= columns) continue;
      double total[Sums];
      for (int s = 0; s < Sums; s++) {
        const double* const plane = shared.at + (uint32_t(s * LANES) + i % LANES) * BLOCK_ITEMS + i / LANES;
        total[s] = plane[0];
        for (uint32_t row = CHUNK; row < rows(); row += CHUNK) total[s] += plane[row * across];
      }
      if (is_total)
        finish(column, static_cast<const double*>(total));
      else
        for (int s = 0; s < Sums; s++) partial[(int64_t(share) * Sums + s) * columns + column] = total[s];
    }
    if (!is_total) published();
  }
};

template <int Sums, int LANES, class Exec, class Term, class Finish>
void sum_columns(Exec& exec, int64_t terms, int64_t columns, void* scratch, Term term, Finish finish) {
  const uint32_t across = items_across<LANES>(columns);
  const uint32_t blocks_across = uint32_t((columns + across * LANES - 1) / (across * LANES)), shares = uint32_t(sum_shares(terms, columns));
  exec.blocks(int64_t(blocks_across) * shares,
              ColumnSums<Sums, LANES, Term, Finish>{uint32_t(terms), uint32_t(columns), across, blocks_across, shares,
                                                    static_cast<double*>(scratch), exec.arrivals(), term, finish});
}

/// A term that is a function of its number and column.
template <int Sums, class F>
struct PlainTerm {
  F f;
  struct Nothing {};
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES>
  SPILLWAY_BOTH void add(Nothing, uint32_t n, uint32_t column, double (&sum)[LANES][Sums]) const {
    f(n, column, sum[0]);
  }
};

/// The place of the totals: sum after sum, column by column.
template <int Sums>
struct PutTotals {
  double* totals;
  uint32_t columns;
  SPILLWAY_BOTH void operator()(uint32_t column, const double* sum) const {
    for (int s = 0; s < Sums; s++) totals[int64_t(s) * columns + column] = sum[s];
  }
};

/// The place of the totals, after the shares' sums.
template <int Sums>
double* totals_in(void* scratch, int64_t terms, int64_t columns) {
  const int64_t shares = sum_shares(terms, columns);
  return static_cast<double*>(scratch) + (shares > 1 ? shares * Sums * columns : 0);
}

/// term(number, column, sums) adds to sums[0 .. Sums). The totals lie at the returned address: sum after sum, column by column.
template <int Sums, class Exec, class Term>
const double* sums_of(Exec& exec, int64_t terms, int64_t columns, void* scratch, Term term) {
  double* const totals = totals_in<Sums>(scratch, terms, columns);
  sum_columns<Sums, 1>(exec, terms, columns, scratch, PlainTerm<Sums, Term>{term}, PutTotals<Sums>{totals, uint32_t(columns)});
  return totals;
}

/// The same, of activations stored as T, with steps of 16 bytes where that is `wide`: columns are channels then, side by side.
template <int Sums, class T, class Exec, class Term, class Finish>
void sum_channels(Exec& exec, int64_t terms, int64_t columns, bool wide, void* scratch, Term term, Finish finish) {
  if (wide)
    sum_columns<Sums, Wide<T>::LANES>(exec, terms, columns, scratch, term, finish);
  else
    sum_columns<Sums, 1>(exec, terms, columns, scratch, term, finish);
}

template <int Sums, class T, class Exec, class Term, class Finish>
void sum_pixels(Exec& exec, const View& of, bool wide, void* scratch, Term term, Finish finish) {
  sum_channels<Sums, T>(exec, ops::pixels(of), of.dims[1], wide, scratch, term, finish);
}

}  // namespace spillway::cuda
