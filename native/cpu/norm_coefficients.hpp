// The coefficients of each channel for the element-wise parts of a norm, computed in double. In: the channels' moments, gamma, the
// totals of the backward, and space for arrays of C floats. Out: arrays for the maps.
#pragma once
#include "cpu/batch_moments.hpp"
#include "cpu/channel_maps.hpp"

namespace spillway::cpu {

/// z = (x - mean)·scale + beta, where beta is the parameter itself.
struct NormScale {
  float *mean, *scale;
};

/// Fills the first two arrays.
template <class MomentsOf>
NormScale scale_of(const MomentsOf& moments, const View& gamma, const Coefficients& k) {
  const NormScale n{k[0], k[1]};
  for (int64_t ch = 0; ch < k.channels; ch++) {
    const Moments m = moments(ch);
    n.mean[ch] = float(m.mean);
    n.scale[ch] = float(m.rstd * double(floats(gamma)[ch]));
  }
  return n;
}

/// dx = scale·(dz - offset - (x - mean)·tilt).
struct NormGradient {
  float *tilt, *offset;
};

/// Fills the third and the fourth array. `totals`: dgamma, dbeta.
inline NormGradient gradient_of(const BatchMoments& moments, const View* totals, const Coefficients& k) {
  const NormGradient g{k[2], k[3]};
  for (int64_t ch = 0; ch < k.channels; ch++) {
    g.tilt[ch] = float(double(floats(totals[0])[ch]) * moments(ch).rstd / moments.count);
    g.offset[ch] = float(double(floats(totals[1])[ch]) / moments.count);
  }
  return g;
}

}  // namespace spillway::cpu
