// The dynamic loss scale, one definition for all devices; the numbers of the operator adjust_scale (staging/ops/scaling.ts).
// In: the scale and its counts, the sum of the squares of all gradients. Out: these after a step, and the factor of gradients, the number
// of the update, and 1 or 0 for all gradients. R is the computing type of a device.
#pragma once
#include <cmath>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// The scale stays in the range of normal floats, and so does its inverse.
constexpr double LEAST_SCALE = 0x1p-126, MOST_SCALE = 0x1p126;

template <class R>
struct Scale {
  R* scale;
  R* counts;  // updates since the last change, updates, skipped ones
  const R* squares;
  const R* before;  // null: the first objective
  R *factor, *updates, *finite;

  explicit Scale(const KernelCall& c)
      : scale(static_cast<R*>(c.ins[0].data)),
        counts(static_cast<R*>(c.ins[1].data)),
        squares(static_cast<const R*>(c.ins[2].data)),
        before(c.n_ins > 3 ? static_cast<const R*>(c.ins[3].data) : nullptr),
        factor(static_cast<R*>(c.outs[0].data)),
        updates(static_cast<R*>(c.outs[1].data)),
        finite(static_cast<R*>(c.outs[2].data)) {}

  SPILLWAY_BOTH void adjust(const AdjustScaleAttrs& a, uint64_t step) const {
    const bool good = *squares - *squares == 0;
    *factor = 1 / *scale;
    *updates = good ? counts[1] + 1 : R(0);
    *finite = good && (!before || *before != 0) ? R(1) : R(0);
    if (step % uint64_t(a.every) != 0) return;
    if (!good) {
      counts[0] = 0;
      counts[2] += 1;
      if (double(*scale) / 2 >= LEAST_SCALE) *scale /= 2;
      return;
    }
    counts[0] += 1;
    counts[1] += 1;
    if (counts[0] < R(a.interval)) return;
    counts[0] = 0;
    if (double(*scale) * 2 <= MOST_SCALE) *scale *= 2;
  }
};

}  // namespace spillway::ops
