// Batch norm over the pixels of a mask: their number, and their statistics from those of all pixels, which are 0 outside. In: the
// statistics of the mask, the number of all pixels, statistics. Out: doubles.
#pragma once
#include <cmath>

#include "ops/batchnorm.hpp"
#include "ops/both.hpp"

namespace spillway::ops {

/// All pixels, and those inside of the mask.
struct Inside {
  double all, inside;
};

template <class T>
SPILLWAY_BOTH Inside inside_of(const Statistics<T>& mask, double all) {
  return {all, floor(all * mask.mean(0) + 0.5)};
}

/// Statistic i of the pixels inside, as M2 of `count` pixels with the variance M2/`of`.
template <class T>
SPILLWAY_BOTH void put_masked(const Statistics<T>& all, const Inside& n, int64_t i, double count, double of, const Statistics<T>& to) {
  if (n.inside < 1) return to.put(i, 0, 0);
  const double mean = all.mean(i), outside = n.all - n.inside;
  const double squares = all.squares(i) - mean * mean * n.all * outside / n.inside;
  to.put(i, mean * n.all / n.inside, (squares > 0 ? squares : 0) * count / (of > 1 ? of : 1));
}

template <class T>
SPILLWAY_BOTH void put_both_masked(const Statistics<T>& all, const Inside& n, int64_t i, const Statistics<T>& masked,
                                   const Statistics<T>& running) {
  put_masked(all, n, i, n.all, n.inside, masked);
  put_masked(all, n, i, n.all - 1, n.inside - 1, running);
}

/// The factor of totals that are divided by the number of all pixels.
SPILLWAY_BOTH inline double factor_of(const Inside& n) { return n.inside < 1 ? 0 : n.all / n.inside; }

}  // namespace spillway::ops
