// Legality of the sum of a parameter's gradients: dense values of one shape.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_param_grad_sum(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  const View& sum = c.outs[0];
  for (uint32_t i = 0; i < c.n_ins; i++)
    if (!is_whole(c.ins[i]) || !same_dims(c.ins[i], sum)) return refuse(c, "the gradients must be whole and of one shape");
  return is_whole(sum) ? Status{} : refuse(c, "the sum must be whole");
}

}  // namespace spillway::ops
