// Legality of weight standardisation: rows of a weight, one for each output channel.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_standardize(const KernelCall& c) {
  const View &w = c.ins[0], &y = c.outs[0];
  if (w.rank != 4 || !is_whole(w)) return refuse(c, "w must be dense, [O,C/groups,kH,kW]");
  return is_laid(y) && same_dims(w, y) ? Status{} : refuse(c, "y must hold w, channels innermost");
}

inline Status check_standardize_bwd(const KernelCall& c) {
  const View &dy = c.ins[0], &w = c.ins[1], &dw = c.outs[0];
  for (const View* v : {&dy, &w, &dw})
    if (v->rank != 4 || !is_whole(*v) || !same_dims(*v, w)) return refuse(c, "dy, w and dw must be dense, of one shape");
  return {};
}

/// Weights of an output channel.
inline int64_t row_size(const View& w) { return w.dims[1] * w.dims[2] * w.dims[3]; }

}  // namespace spillway::ops
