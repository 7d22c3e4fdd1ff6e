// Legality of dropout and its gradient.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_probability(const KernelCall& c, double p) {
  return p >= 0 && p < 1 ? Status{} : refuse(c, "p must be in [0, 1)");
}

inline Status check_dropout(const KernelCall& c) {
  if (Status s = check_same_boxes(c); !s.ok()) return s;
  return check_probability(c, DropoutAttrs::read(c.attrs).p);
}

inline Status check_dropout_bwd(const KernelCall& c) {
  if (Status s = check_same_boxes(c); !s.ok()) return s;
  return check_probability(c, DropoutBwdAttrs::read(c.attrs).p);
}

}  // namespace spillway::ops
