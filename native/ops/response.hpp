// Legality of the gradient of sums of squares: one number for each image and channel of x.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_square_sums_bwd(const KernelCall& c) {
  const View &x = c.ins[0], &ds = c.ins[1], &dx = c.outs[0];
  if (!is_activation(x) || !is_activation(dx) || !same_box(x, dx)) return refuse(c, "x and dx must hold one box");
  bool fits = is_activation(ds) && ds.extent[2] == 1 && ds.extent[3] == 1;
  for (const int d : {0, 1}) fits = fits && ds.dims[d] == x.dims[d] && ds.origin[d] == x.origin[d];
  return fits ? Status{} : refuse(c, "ds must be [B,C,1,1] of the images and channels of x");
}

}  // namespace spillway::ops
