// How gradients are clipped, one definition for all devices: R is what a device computes in. Invariant: what is not a number stays so,
// and squares that are not finite leave no gradient that is: a run must not go on without saying why.
#pragma once
#include <cmath>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

template <class R>
SPILLWAY_BOTH R clipped_value(R g, R limit) {
  return g > limit ? limit : g < -limit ? -limit : g;
}

/// What every gradient is times, where they are so long together.
SPILLWAY_BOTH inline double clip_factor(double squares, double most) {
  const double factor = most / (std::sqrt(squares) + 1e-6);
  return !std::isfinite(squares) ? squares - squares : factor < 1 ? factor : 1;
}

}  // namespace spillway::ops
