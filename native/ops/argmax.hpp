// Legality of argmax: x [B,C,H,W] with all of its channels, y [B,1,H,W] at the same pixels.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_argmax(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  if (!is_activation(x) || !is_activation(y)) return refuse(c, "x and y must be activations");
  if (x.origin[1] != 0 || x.dims[1] != x.extent[1]) return refuse(c, "x must have all of its channels");
  return same_pixels(x, y) && y.dims[1] == 1 ? Status{} : refuse(c, "y must be [B,1,H,W] at the pixels of x");
}

}  // namespace spillway::ops
