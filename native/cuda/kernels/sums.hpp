// Sums of many terms in a fixed order, in one launch. A block has some columns and a share of their terms. Its items add up short runs of
// terms, the runs in double, and then each other's sums. The last block of those with the same columns adds up the sums of all. In: terms
// by number and column. Out: finish(column, totals), the same bits each time, whichever block is last. Worked example: 802816 pixels of 64
// channels: 256 blocks of 16 items side by side (4 channels each) and 16 below each other.
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

/// Terms that an item adds up in the type of a term before one addition in double.
constexpr uint32_t RUN_TERMS = 16;

/// `term` has at(column), computed once a block; start<LANES>(column), computed once an item; add<LANES>(at, start, number, column, part)
/// for LANES columns side by side. `Part` is the type of a short sum: float for activations, since the rounding of few terms is small.
template <int Sums, int LANES, class Term, class Finish>
struct ColumnSums {
  static constexpr int PHASES = 8;
  static constexpr uint32_t PLANES = LANES * Sums, CHUNK = 16;
  using Part = typename Term::Part;
  static constexpr int AT_ONCE = sizeof(Part) == sizeof(float) ? 4 : 2;  // terms whose reads are under way at once
  using At = decltype(std::declval<const Term&>().at(uint32_t(0)));
  struct Shared {
    double at[PLANES * BLOCK_ITEMS];
    AtColumns<At, LANES> of;
    bool is_last;
  };
  BlockGrid<LANES> grid;
  uint32_t terms;
  double* partial;
  uint32_t* arrivals;
  Term term;
  Finish finish;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    if constexpr (phase == 0) shared.of.put(term, grid, block, item);
    if constexpr (phase == 1) gather(shared, block, item);
    if constexpr (phase == 2) merge_chunks(shared, item);
    if constexpr (phase == 3) hand_over(shared, block, item, grid.shares == 1);
    if constexpr (phase == 4) {
      if (item == 0) shared.is_last = grid.shares > 1 && arrives_last(arrivals + grid.group(block), grid.shares);
    }
    if constexpr (phase > 4) {
      if (!shared.is_last) return;
      if constexpr (phase == 5) gather_shares(shared, block, item);
      if constexpr (phase == 6) merge_chunks(shared, item);
      if constexpr (phase == 7) hand_over(shared, block, item, true);
    }
  }

 private:
  /// The item's sum of a plane.
  SPILLWAY_BOTH static double& sum_of(Shared& shared, int lane, int s, uint32_t item) {
    return shared.at[uint32_t(s * LANES + lane) * BLOCK_ITEMS + item];
  }
  SPILLWAY_BOTH static void clear(Shared& shared, uint32_t item) {
    for (int lane = 0; lane < LANES; lane++)
      for (int s = 0; s < Sums; s++) sum_of(shared, lane, s, item) = 0;
  }

  /// The sums in double lie in shared memory: registers hold the terms under way.
  SPILLWAY_BOTH void gather(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t column = grid.column(block, item), step = grid.step();
    clear(shared, item);
    if (column >= grid.columns) return;
    const auto of = shared.of.of(grid, item);
    const auto start = term.template start<LANES>(column);
    for (uint32_t n = grid.row(block, item); n < terms;) {
      Part part[LANES][Sums] = {};
      const uint32_t end = terms - n > RUN_TERMS * step ? n + RUN_TERMS * step : terms;
      SPILLWAY_UNROLL(AT_ONCE)
      for (; n < end; n += step) term.template add<LANES>(of, start, n, column, part);
      for (int lane = 0; lane < LANES; lane++)
        for (int s = 0; s < Sums; s++) sum_of(shared, lane, s, item) += double(part[lane][s]);
    }
  }

  SPILLWAY_BOTH void gather_shares(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t column = grid.column(block, item);
    clear(shared, item);
    if (column >= grid.columns) return;
    for (uint32_t share = item / grid.across; share < grid.shares; share += grid.rows())
      for (int lane = 0; lane < LANES; lane++)
        for (int s = 0; s < Sums; s++)
          sum_of(shared, lane, s, item) += of_other_blocks(partial + (int64_t(share) * Sums + s) * grid.columns + column + uint32_t(lane));
  }

  /// Sixteen rows become their first.
  SPILLWAY_BOTH void merge_chunks(Shared& shared, uint32_t item) const {
    const uint32_t rows = grid.rows(), chunks = (rows + CHUNK - 1) / CHUNK, across = grid.across;
    for (uint32_t i = item; i < PLANES * across * chunks; i += BLOCK_ITEMS) {
      const uint32_t x = i % across, first = i / across % chunks * CHUNK, last = first + CHUNK < rows ? first + CHUNK : rows;
      double* const plane = shared.at + i / across / chunks * BLOCK_ITEMS + x;
      double sum = plane[first * across];
      for (uint32_t row = first + 1; row < last; row++) sum += plane[row * across];
      plane[first * across] = sum;
    }
  }

  SPILLWAY_BOTH void hand_over(const Shared& shared, uint32_t block, uint32_t item, bool is_total) const {
    for (uint32_t i = item; i < grid.across * LANES; i += BLOCK_ITEMS) {
      const uint32_t column = grid.first_column(block) + i;
      if (column >= grid.columns) continue;
      double total[Sums];
      for (int s = 0; s < Sums; s++) {
        const double* const plane = shared.at + (uint32_t(s * LANES) + i % LANES) * BLOCK_ITEMS + i / LANES;
        total[s] = plane[0];
        for (uint32_t row = CHUNK; row < grid.rows(); row += CHUNK) total[s] += plane[row * grid.across];
      }
      if (is_total)
        finish(column, static_cast<const double*>(total));
      else
        for (int s = 0; s < Sums; s++) partial[(int64_t(grid.share(block)) * Sums + s) * grid.columns + column] = total[s];
    }
    if (!is_total) published();
  }
};

template <int Sums, int LANES, class Exec, class Term, class Finish>
void sum_columns(Exec& exec, int64_t terms, int64_t columns, void* scratch, Term term, Finish finish) {
  BlockGrid<LANES> grid(columns);
  grid.shares = uint32_t(sum_shares(terms, columns));
  exec.blocks(grid.blocks(),
              ColumnSums<Sums, LANES, Term, Finish>{grid, uint32_t(terms), static_cast<double*>(scratch), exec.arrivals(), term, finish});
}

/// A term that is a function of its number and column, in double.
template <int Sums, class F>
struct PlainTerm {
  using Part = double;
  F f;
  SPILLWAY_BOTH Nothing at(uint32_t) const { return {}; }
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void add(const Of&, Nothing, uint32_t n, uint32_t column, double (&sum)[LANES][Sums]) const {
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

/// term(number, column, sums) adds to sums[0 .. Sums).
template <int Sums, class Exec, class Term, class Finish>
void sum_terms(Exec& exec, int64_t terms, int64_t columns, void* scratch, Term term, Finish finish) {
  sum_columns<Sums, 1>(exec, terms, columns, scratch, PlainTerm<Sums, Term>{term}, finish);
}

/// The same; the totals lie at the returned address: sum after sum, column by column.
template <int Sums, class Exec, class Term>
const double* sums_of(Exec& exec, int64_t terms, int64_t columns, void* scratch, Term term) {
  double* const totals = totals_in<Sums>(scratch, terms, columns);
  sum_terms<Sums>(exec, terms, columns, scratch, term, PutTotals<Sums>{totals, uint32_t(columns)});
  return totals;
}

/// Channels of an item where an access may be wide: sums of eight channels take too many registers.
constexpr int SUM_LANES = 4;

/// The same, of activations stored as T, SUM_LANES at a time if accesses may be `wide`: columns are channels then, side by side.
template <int Sums, class T, class Exec, class Term, class Finish>
void sum_channels(Exec& exec, int64_t terms, int64_t columns, bool wide, void* scratch, Term term, Finish finish) {
  if (wide)
    sum_columns<Sums, SUM_LANES>(exec, terms, columns, scratch, term, finish);
  else
    sum_columns<Sums, 1>(exec, terms, columns, scratch, term, finish);
}

template <int Sums, class T, class Exec, class Term, class Finish>
void sum_pixels(Exec& exec, const View& of, bool wide, void* scratch, Term term, Finish finish) {
  sum_channels<Sums, T>(exec, ops::pixels(of), of.dims[1], wide, scratch, term, finish);
}

}  // namespace spillway::cuda
