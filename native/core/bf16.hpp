// bf16: the upper half of a single-precision number. In: a float or double. Out: the nearest bf16, ties to even, in one rounding.
// Invariant: NaN, infinities and signed zeros are kept.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace spillway {

struct Bf16 {
  uint16_t bits;

  Bf16() = default;
  constexpr explicit Bf16(float f) : bits(rounded(f)) {}
  constexpr explicit Bf16(double d) : bits(rounded(nearly(d))) {}
  constexpr explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
  constexpr explicit operator double() const { return double(float(*this)); }

  /// The bits of the nearest one: loops over these are vectorised.
  static constexpr uint16_t rounded(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint32_t up = (u + 0x7fff + (u >> 16 & 1)) >> 16, quiet = (u >> 16) | 0x40;
    return uint16_t((u & 0x7fffffff) > 0x7f800000 ? quiet : up);
  }

 private:
  /// A float on the same side of every tie as d: where d lies between two floats, the one whose last bit is 1.
  static constexpr float nearly(double d) {
    const float f = float(d);
    if (double(f) == d || f != f || (std::bit_cast<uint32_t>(f) & 1)) return f;
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const bool outwards = (double(f) < d) == (d > 0);
    if ((u & 0x7fffffff) == 0) return std::bit_cast<float>(u | 1);
    return std::bit_cast<float>(outwards ? u + 1 : u - 1);
  }
};

static_assert(sizeof(Bf16) == 2);

}  // namespace spillway
