// Legality and geometry of local response normalisation and its gradient.
#pragma once
#include <algorithm>

#include "ops/check.hpp"

namespace spillway::ops {

struct Channels {
  int64_t lo, hi;
};
/// The channels whose squares the divisor of channel c sums.
constexpr Channels lrn_window(const LrnAttrs& a, int64_t c, int64_t channels) {
  const int64_t from = c - a.size / 2;
  return {std::max<int64_t>(0, from), std::min(channels, from + a.size)};
}
/// The channels whose divisors sum channel c.
constexpr Channels lrn_readers(const LrnAttrs& a, int64_t c, int64_t channels) {
  const int64_t to = c + a.size / 2;
  return {std::max<int64_t>(0, to - a.size + 1), std::min(channels, to + 1)};
}

inline Status check_lrn(const KernelCall& c) { return LrnAttrs::read(c.attrs).k > 0 ? check_by_table(c) : refuse(c, "k must be above 0"); }

}  // namespace spillway::ops
