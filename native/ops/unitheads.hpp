// Legality and geometry of queries and keys of unit length.
#pragma once
#include <cmath>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// The places of the heads' queries (part 0), keys (1) and values (2) in the channels of a pixel.
struct UnitHeadsPlan {
  UnitHeadsAttrs a;
  int64_t head;

  explicit UnitHeadsPlan(const KernelCall& c) : a(UnitHeadsAttrs::read(c.attrs)), head(c.ins[0].dims[1] / (3 * a.heads)) {}

  SPILLWAY_BOTH int64_t channel(int64_t part, int64_t of) const {
    return a.head_first ? (of * 3 + part) * head : (part * a.heads + of) * head;
  }
  /// The factor of a head's queries.
  SPILLWAY_BOTH double scale(double p) const { return std::exp(p < a.most ? p : a.most); }
  /// The inverse of the length of a head's channels.
  template <class T>
  SPILLWAY_BOTH double inverse(const T* x) const {
    double sum = 1e-24;
    for (int64_t e = 0; e < head; e++) sum += double(float(x[e])) * double(float(x[e]));
    return 1 / std::sqrt(sum);
  }
};

inline Status check_unit_heads_sizes(const KernelCall& c, const View& y, const View& p) {
  const View& x = c.ins[0];
  const auto a = UnitHeadsAttrs::read(c.attrs);
  if (!is_activation(x) || !is_activation(y) || !same_box(x, y)) return refuse(c, "x and y must be the same pixels");
  if (x.origin[1] != 0 || x.dims[1] != x.extent[1] || x.dims[1] % (3 * a.heads) != 0)
    return refuse(c, "x must have queries, keys and values of all heads");
  return is_whole(p) && elements(p) == a.heads ? Status{} : refuse(c, "p must have a number for each head");
}

inline Status check_unit_heads(const KernelCall& c) { return check_unit_heads_sizes(c, c.outs[0], c.ins[1]); }

inline Status check_unit_heads_bwd(const KernelCall& c) {
  if (Status s = check_unit_heads_sizes(c, c.ins[1], c.ins[2]); !s.ok()) return s;
  if (!is_activation(c.outs[0]) || !same_box(c.outs[0], c.ins[0])) return refuse(c, "dx must be like x");
  return is_whole(c.outs[1]) && same_dims(c.outs[1], c.ins[2]) ? Status{} : refuse(c, "dp must be like p");
}

}  // namespace spillway::ops
