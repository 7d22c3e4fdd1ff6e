// Batch norm at one element, alone or with a rectifier behind it. In: statistics, the count behind them, eps. Out: doubles.
#pragma once
#include <cmath>

#include "ops/batchnorm.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {

/// Mean and reciprocal deviation of a channel.
struct Moments {
  double mean, rstd;
};

template <class T>
Moments batch_moments(const View& stats, int64_t channel, double count, double eps) {
  const ops::Statistics<T> s(stats);
  return {s.mean(channel), 1.0 / std::sqrt(s.squares(channel) / count + eps)};
}

/// The rectified `value`, if it passes or not.
inline double rectified(double slope, bool passes, double value) { return passes ? value : slope == 0 ? 0 : slope * value; }

/// Batch norm followed by a rectifier, at one element.
struct Rectified {
  double mean, rstd, gamma, beta, slope;
  template <class T>
  static Rectified of(const KernelCall& c, int64_t channel, uint32_t stats, double count, double eps, double slope) {
    const Moments m = batch_moments<T>(c.ins[stats], channel, count, eps);
    return {m.mean, m.rstd, double(Tensor<T>(c.ins[stats + 1])[channel]), double(Tensor<T>(c.ins[stats + 2])[channel]), slope};
  }
  double normal(double x) const { return (x - mean) * rstd; }
  double operator()(double x, double value) const { return rectified(slope, !(normal(x) * gamma + beta <= 0), value); }
};

}  // namespace spillway::ref
