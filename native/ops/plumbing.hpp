// Legality of the calls that tiling adds: fill, copy, merge_sum, merge_moments.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline bool is_any(const View& v) { return is_activation(v) || is_whole(v); }

inline Status check_fill(const KernelCall& c) {
  return is_any(c.outs[0]) ? Status{} : refuse(c, "the output must be an activation or dense");
}

inline Status check_pair(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  return is_any(x) && is_any(y) && same_dims(x, y) ? Status{} : refuse(c, "x and y must have the same dims");
}

inline Status check_merge_moments(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  const auto of_batch = [&](const View& v) { return v.rank == 2 && is_matrix(v, 4, x.dims[1]); };
  const auto of_images = [](const View& v) { return is_activation(v) && v.dims[1] % 4 == 0 && v.dims[2] == 1 && v.dims[3] == 1; };
  if ((of_batch(x) && of_batch(y)) || (of_images(x) && of_images(y) && same_box(x, y))) return {};
  return refuse(c, "both sides must be [4,C], or [B,4G,1,1] of the same images");
}

}  // namespace spillway::ops
