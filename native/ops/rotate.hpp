// Legality and angles of rotary positions.
#pragma once
#include <cmath>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// The angle of a pair of channels in a pixel. Indexes are those of the whole value.
struct RotatePlan {
  RotateAttrs a;
  int64_t width;
  double log_base;

  explicit RotatePlan(const KernelCall& c) : a(RotateAttrs::read(c.attrs)), width(c.outs[0].extent[3]), log_base(std::log(a.base)) {}

  SPILLWAY_BOTH int64_t pairs() const { return a.head / 2; }
  SPILLWAY_BOTH double angle(int64_t pair, int64_t h, int64_t w) const {
    const int64_t place = h * width + w - a.skip, each = a.head / 4;
    if (place < 0) return 0;
    const double at = pair < each ? (double(place / a.columns) + a.first) * a.step_h : (double(place % a.columns) + a.first) * a.step_w;
    const double turn = at * std::exp(-log_base * double(pair % each) / double(each));
    return a.inverse ? -turn : turn;
  }
  /// The element of a channel, from it and from the other one of its pair.
  template <class R>
  SPILLWAY_BOTH static R rotated(int64_t channel, R own, R other, R cosine, R sine) {
    return own * cosine + (channel % 2 == 0 ? -other : other) * sine;
  }
};

inline Status check_rotate(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  const auto a = RotateAttrs::read(c.attrs);
  if (!is_activation(x) || !is_activation(y) || !same_box(x, y)) return refuse(c, "y must be like x");
  const bool fits = a.head % 4 == 0 && x.extent[1] % a.head == 0 && x.dims[1] == x.extent[1];
  return fits ? Status{} : refuse(c, "x must have all channels of heads of a multiple of 4");
}

}  // namespace spillway::ops
