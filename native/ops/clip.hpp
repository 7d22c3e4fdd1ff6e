// The clipping of gradients, one definition for all devices: R is the computing type of a device. Invariant: NaN stays NaN, and
// squares that are not finite leave no finite gradient, so that the run stops with a reason.
#pragma once
#include <cmath>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

template <class R>
SPILLWAY_BOTH R clipped_value(R g, R limit) {
  return g > limit ? limit : g < -limit ? -limit : g;
}

/// The factor of every gradient for this norm of all.
SPILLWAY_BOTH inline double clip_factor(double squares, double most) {
  const double factor = most / (std::sqrt(squares) + 1e-6);
  return !std::isfinite(squares) ? squares - squares : factor < 1 ? factor : 1;
}

}  // namespace spillway::ops
