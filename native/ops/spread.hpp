// Legality of the repetition of a parameter's values, and of its gradient.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_repetition(const KernelCall& c, const View& values, const View& repeated, int64_t times) {
  if (!is_vector(values, values.dims[0])) return refuse(c, "the values must be a dense vector");
  return is_vector(repeated, values.dims[0] * times) ? Status{} : refuse(c, "the repetition must have each value `times` in a row");
}

inline Status check_spread(const KernelCall& c) { return check_repetition(c, c.ins[0], c.outs[0], SpreadAttrs::read(c.attrs).times); }
inline Status check_spread_bwd(const KernelCall& c) {
  return check_repetition(c, c.outs[0], c.ins[0], SpreadBwdAttrs::read(c.attrs).times);
}

}  // namespace spillway::ops
