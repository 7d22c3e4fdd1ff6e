// Legality and coordinates of a table of scores for distances that a small network computes.
#pragma once
#include <cmath>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// The distances of a table, and the sizes of the network.
struct DistanceScoresPlan {
  DistanceScoresAttrs a;
  int64_t hidden, heads;

  /// `w1` is the operand of the first weight; the others follow it.
  DistanceScoresPlan(const KernelCall& c, uint32_t w1)
      : a(DistanceScoresAttrs::read(c.attrs)), hidden(c.ins[w1].dims[0]), heads(c.ins[w1 + 2].dims[0]) {}

  SPILLWAY_BOTH int64_t rows() const { return (2 * a.height - 1) * (2 * a.width - 1); }
  SPILLWAY_BOTH double u(int64_t row) const { return coordinate(row / (2 * a.width - 1) - a.height + 1, a.reach_h); }
  SPILLWAY_BOTH double v(int64_t row) const { return coordinate(row % (2 * a.width - 1) - a.width + 1, a.reach_w); }
  /// The hidden value k of a distance.
  template <class T>
  SPILLWAY_BOTH double hidden_at(const T* w1, const T* b1, int64_t row, int64_t k) const {
    const double z = double(w1[2 * k]) * u(row) + double(w1[2 * k + 1]) * v(row) + double(b1[k]);
    return z > 0 ? z : 0;
  }
  SPILLWAY_BOTH double bounded(double z) const { return a.bound > 0 ? a.bound / (1 + std::exp(-z)) : z; }
  /// The factor of a score's gradient, from the score.
  SPILLWAY_BOTH double slope(double y) const { return a.bound > 0 ? y * (1 - y / a.bound) : 1; }

 private:
  SPILLWAY_BOTH double coordinate(int64_t distance, double reach) const {
    const double length = std::log1p(double(distance < 0 ? -distance : distance) * reach) * a.factor;
    return distance < 0 ? -length : length;
  }
};

inline Status check_distance_network(const KernelCall& c, uint32_t w1, const View& y) {
  const DistanceScoresPlan p(c, w1);
  const bool fits = is_matrix(c.ins[w1], p.hidden, 2) && is_vector(c.ins[w1 + 1], p.hidden) &&
                    is_matrix(c.ins[w1 + 2], p.heads, p.hidden) && (c.n_ins <= w1 + 3 || is_vector(c.ins[w1 + 3], p.heads));
  if (!fits) return refuse(c, "the weights must be those of two layers, from two coordinates to the heads");
  return is_matrix(y, p.rows(), p.heads) ? Status{} : refuse(c, "y must have a row for each distance");
}

inline Status check_distance_scores(const KernelCall& c) { return check_distance_network(c, 0, c.outs[0]); }

inline Status check_distance_scores_bwd(const KernelCall& c) {
  if (Status s = check_distance_network(c, 2, c.ins[0]); !s.ok()) return s;
  if (!is_whole(c.ins[1]) || !same_dims(c.ins[1], c.ins[0])) return refuse(c, "dy must be like y");
  if (c.n_outs + 2 != c.n_ins) return refuse(c, "each weight must have a gradient");
  for (uint32_t i = 0; i < c.n_outs; i++)
    if (!is_whole(c.outs[i]) || !same_dims(c.outs[i], c.ins[i + 2])) return refuse(c, "gradients must be like the weights");
  return {};
}

}  // namespace spillway::ops
