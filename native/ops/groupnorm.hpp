// Legality of the group norm operators. Activations agree in their boxes; statistics [B,4G,1,1] and sums [B,2C,1,1] hold
// the images of the box; gamma, beta and their gradients are [C].
#pragma once
#include "ops/batchnorm.hpp"

namespace spillway::ops {

/// One row of numbers for each image of x.
inline bool is_of_images(const View& v, const View& x, int64_t row) {
  return is_activation(v) && v.dims[0] == x.dims[0] && v.origin[0] == x.origin[0] && v.dims[1] == row && v.extent[1] == row &&
         v.dims[2] == 1 && v.dims[3] == 1;
}

/// All channels of x, and groups that divide them.
inline bool groups_fit(const View& x, int64_t groups) {
  return is_activation(x) && x.dims[1] == x.extent[1] && groups >= 1 && groups <= x.dims[1] && x.dims[1] % groups == 0;
}

inline Status check_group_norm_stats(const KernelCall& c) {
  const int64_t groups = GroupNormStatsAttrs::read(c.attrs).groups;
  if (!groups_fit(c.ins[0], groups)) return refuse(c, "x must have all its channels, in groups of one size");
  return is_of_images(c.outs[0], c.ins[0], 4 * groups) ? Status{} : refuse(c, "stats must be [B,4G,1,1] of the images of x");
}

/// The first `tensors` inputs hold one box; statistics follow, then sums if `has_sums`, then vectors.
inline Status check_group_norm(const KernelCall& c, uint32_t tensors, bool has_sums) {
  const View& x = c.ins[0];
  const auto a = GroupNormApplyAttrs::read(c.attrs);
  if (!groups_fit(x, a.groups)) return refuse(c, "x must have all its channels, in groups of one size");
  if (a.count < 1) return refuse(c, "the count must be at least 1");
  if (tensors == 2 && (!is_activation(c.ins[1]) || !same_box(c.ins[1], x))) return refuse(c, "the activations must hold one box");
  if (!is_of_images(c.ins[tensors], x, 4 * a.groups)) return refuse(c, "stats must be [B,4G,1,1] of the images of x");
  if (has_sums && !is_of_images(c.ins[3], x, 2 * x.dims[1])) return refuse(c, "sums must be [B,2C,1,1] of the images of x");
  for (uint32_t i = tensors + 1 + has_sums; i < c.n_ins; i++)
    if (!is_vector(c.ins[i], x.dims[1])) return refuse(c, "per-channel inputs must be [C]");
  return {};
}

inline Status check_writes_box(const KernelCall& c, Status s) {
  if (!s.ok()) return s;
  return is_activation(c.outs[0]) && same_box(c.outs[0], c.ins[0]) ? Status{} : refuse(c, "the output must hold the box of the inputs");
}

inline Status check_group_norm_apply(const KernelCall& c) {
  if (c.n_ins == 3) return refuse(c, "gamma is given without beta");
  return check_writes_box(c, check_group_norm(c, 1, false));
}
inline Status check_group_norm_bwd_data(const KernelCall& c) { return check_writes_box(c, check_group_norm(c, 2, true)); }

inline Status check_group_norm_bwd_reduce(const KernelCall& c) {
  if (Status s = check_group_norm(c, 2, false); !s.ok()) return s;
  const View& x = c.ins[0];
  if (!is_of_images(c.outs[0], x, 2 * x.dims[1])) return refuse(c, "sums must be [B,2C,1,1] of the images of x");
  for (uint32_t i = 1; i < c.n_outs; i++)
    if (!is_vector(c.outs[i], x.dims[1])) return refuse(c, "the gradients must be [C]");
  return {};
}

}  // namespace spillway::ops
