// The statistics of a channel for the kernels of batch norm. In: stats [4,C], their count, eps. Out: mean and
// reciprocal deviation, in double.
#pragma once
#include <cmath>

#include "cpu/kernels.hpp"
#include "ops/batchnorm.hpp"

namespace spillway::cpu {

using ChannelReader = const float*;

/// Mean and reciprocal deviation of a channel, of a batch or of the running averages.
struct Moments {
  double mean, rstd;
};

struct BatchMoments {
  BatchMoments(const View& view, double count_, double eps_) : stats(view), mean(floats(view)), count(count_), eps(eps_) {}
  Moments operator()(int64_t c) const { return {stats.mean(c), 1.0 / std::sqrt(stats.squares(c) / count + eps)}; }
  ops::Statistics<float> stats;
  ChannelReader mean;
  double count, eps;
};

}  // namespace spillway::cpu
