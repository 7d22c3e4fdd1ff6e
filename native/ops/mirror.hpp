// Legality and places of a table of distances that is made of one of absolute distances.
#pragma once
#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// The place of a distance of rows and columns, each from −(size − 1) to size − 1, in the larger table.
struct MirrorPlan {
  int64_t height, width, is_signed, count;

  /// Numbers of a head in p.
  SPILLWAY_BOTH int64_t size() const { return is_signed ? rows() : height * width; }
  SPILLWAY_BOTH int64_t rows() const { return (2 * height - 1) * (2 * width - 1); }
  /// The place in p [N, size] of row `distance` of the larger table.
  SPILLWAY_BOTH int64_t source(int64_t distance) const {
    if (is_signed) return rows() - 1 - distance;
    const int64_t dh = distance / (2 * width - 1) - height + 1, dw = distance % (2 * width - 1) - width + 1;
    return (dh < 0 ? -dh : dh) * width + (dw < 0 ? -dw : dw);
  }
  /// Calls f(row of the larger table) for the signs of an absolute distance, in order.
  template <class F>
  SPILLWAY_BOTH void each_sign(int64_t source, F f) const {
    if (is_signed) return f(rows() - 1 - source);
    const int64_t h = source / width, w = source % width;
    for (int64_t dh = -h; dh <= h; dh += h == 0 ? 1 : 2 * h)
      for (int64_t dw = -w; dw <= w; dw += w == 0 ? 1 : 2 * w) f((dh + height - 1) * (2 * width - 1) + dw + width - 1);
  }
};

inline MirrorPlan mirror_plan(const KernelCall& c, const View& p) {
  const auto a = MirrorAttrs::read(c.attrs);
  return {a.height, a.width, a.is_signed, p.dims[0]};
}

inline Status check_mirror_sizes(const KernelCall& c, const View& p, const View& y) {
  const MirrorPlan plan = mirror_plan(c, p);
  const bool fits = plan.is_signed ? is_whole(p) && p.rank == 3 && p.dims[1] == 2 * plan.height - 1 && p.dims[2] == 2 * plan.width - 1
                                   : is_matrix(p, plan.count, plan.height * plan.width);
  if (!fits) return refuse(c, "p must have a number for each absolute distance, or for each signed one");
  return is_matrix(y, plan.rows(), plan.count) ? Status{} : refuse(c, "y must have a row for each distance");
}

inline Status check_mirror(const KernelCall& c) { return check_mirror_sizes(c, c.ins[0], c.outs[0]); }
inline Status check_mirror_bwd(const KernelCall& c) { return check_mirror_sizes(c, c.outs[0], c.ins[0]); }

}  // namespace spillway::ops
