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

inline Status check_lrn(const KernelCall& c) {
  if (Status s = check_whole_channels(c); !s.ok()) return s;
  const LrnAttrs a = LrnAttrs::read(c.attrs);
  constexpr int64_t most = int64_t(1) << 30;
  return a.size >= 1 && a.size <= most && a.alpha >= 0 && a.beta >= 0 && a.k > 0 ? Status{}
                                                                               : refuse(c, "size, alpha, beta or k is out of range");
}

}  // namespace spillway::ops
