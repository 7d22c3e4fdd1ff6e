// Legality of a parameter with zeros in place of some values.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_blank(const KernelCall& c) {
  const auto a = BlankAttrs::read(c.attrs);
  const View &p = c.ins[0], &y = c.outs[0];
  if (!is_vector(p, p.dims[0]) || !is_vector(y, p.dims[0])) return refuse(c, "p and y must be vectors of one length");
  return a.from < a.to && a.to <= p.dims[0] ? Status{} : refuse(c, "the places must be those of the parameter");
}

}  // namespace spillway::ops
