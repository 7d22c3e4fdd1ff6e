// Legality of laying a weight out.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_lay_out(const KernelCall& c) {
  const View &w = c.ins[0], &laid = c.outs[0];
  if (w.rank != 4 || !is_whole(w)) return refuse(c, "w must be dense, [O,C/groups,kH,kW]");
  return is_laid(laid) && same_dims(w, laid) ? Status{} : refuse(c, "the output must hold w, channels innermost");
}

}  // namespace spillway::ops
