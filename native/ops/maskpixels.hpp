// Pixels of a mask: it is above 0 inside. In: the mask's value of a pixel. Out: its factor.
#pragma once
#include "ops/batchnorm.hpp"
#include "ops/both.hpp"

namespace spillway::ops {

/// The mask divided by its mean, which its statistics have.
template <class T>
SPILLWAY_BOTH double mask_factor(double mask, const Statistics<T>& stats) {
  const double mean = stats.mean(0);
  return mean > 0 ? mask / mean : 0;
}

}  // namespace spillway::ops
