// Legality of the sum of gradients, whose boxes lie inside that of its output.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

/// Each input's box lies inside the output's.
inline Status check_grad_sum(const KernelCall& c) {
  const View& sum = c.outs[0];
  if (!is_activation(sum)) return refuse(c, "the output must be an activation");
  for (uint32_t i = 0; i < c.n_ins; i++) {
    if (!is_activation(c.ins[i])) return refuse(c, "the inputs must be activations");
    for (int d = 0; d < 4; d++)
      if (lower(c.ins[i], d) < lower(sum, d) || upper(c.ins[i], d) > upper(sum, d))
        return refuse(c, "each input's box must lie inside the output's");
  }
  return {};
}

}  // namespace spillway::ops
