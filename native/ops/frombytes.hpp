// A byte of a pixel as a number, once for all devices. In: the byte, its channel's mean and deviation. Out: (x/255 - mean)/std, with
// three roundings as PyTorch has them on the cpu. Nothing may be reordered or made a product with an inverse: bits would differ.
#pragma once
#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

template <class T>
SPILLWAY_BOTH T from_byte(uint8_t x, T mean, T deviation) {
  return (T(x) / T(255) - mean) / deviation;
}

/// The means and deviations of a call: one of both for all channels, or one for each of the whole value.
template <class T>
struct ByteScale {
  T mean, deviation;
  static ByteScale of(const KernelCall& c, int64_t channel) {
    const double* const own = c.attrs + (c.n_attrs == 2 ? 0 : 2 * channel);
    return {T(own[0]), T(own[1])};
  }
};

inline Status check_from_bytes(const KernelCall& c) {
  if (Status s = check_by_table(c); !s.ok()) return s;
  return c.n_attrs == 2 || int64_t(c.n_attrs) == 2 * c.outs[0].extent[1]
             ? Status{}
             : refuse(c, "there must be a mean and a deviation for each channel, or one for all");
}

}  // namespace spillway::ops
