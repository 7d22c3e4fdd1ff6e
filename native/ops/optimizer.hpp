// Legality of the update operators: weights, gradient and moments have one shape.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_update(const KernelCall& c) {
  for (uint32_t i = 0; i < c.n_ins; i++)
    if (!is_whole(c.ins[i]) || !same_dims(c.ins[i], c.ins[0]))
      return refuse(c, "weights, gradient and moments must be dense and of one shape");
  return {};
}

inline Status check_sgd(const KernelCall& c) {
  if (Status s = check_update(c); !s.ok()) return s;
  const bool needs_velocity = SgdAttrs::read(c.attrs).momentum != 0;
  return needs_velocity == (c.n_ins == 3) ? Status{} : refuse(c, "a velocity is due exactly when there is momentum");
}

}  // namespace spillway::ops
