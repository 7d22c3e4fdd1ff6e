// The two 16-bit floats. In: a float or double. Out: the nearest one, ties to even, in one rounding. bf16 is the upper half of a float.
// f16 is IEEE 754 binary16, from 2^-24 to 65504.
// Invariant: NaN, infinities and signed zeros are kept; larger numbers become infinite.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace spillway {

/// A float on the same side of every tie as d: if d lies between two floats, the one whose last bit is 1.
constexpr float odd_rounded(double d) {
  const float f = float(d);
  if (double(f) == d || f != f || (std::bit_cast<uint32_t>(f) & 1)) return f;
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const bool outwards = (double(f) < d) == (d > 0);
  if ((u & 0x7fffffff) == 0) return std::bit_cast<float>(u | 1);
  return std::bit_cast<float>(outwards ? u + 1 : u - 1);
}

struct Bf16 {
  uint16_t bits;

  Bf16() = default;
  constexpr explicit Bf16(float f) : bits(rounded(f)) {}
  constexpr explicit Bf16(double d) : bits(rounded(odd_rounded(d))) {}
  constexpr explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
  constexpr explicit operator double() const { return double(float(*this)); }

  /// The bits of the nearest one: loops over these are vectorised.
  static constexpr uint16_t rounded(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint32_t up = (u + 0x7fff + (u >> 16 & 1)) >> 16, quiet = (u >> 16) | 0x40;
    return uint16_t((u & 0x7fffffff) > 0x7f800000 ? quiet : up);
  }
};

static_assert(sizeof(Bf16) == 2);

struct F16 {
  uint16_t bits;

  F16() = default;
  constexpr explicit F16(float f) : bits(rounded(f)) {}
  constexpr explicit F16(double d) : bits(rounded(odd_rounded(d))) {}
  constexpr explicit operator float() const { return widened(bits); }
  constexpr explicit operator double() const { return double(float(*this)); }

  /// The bits of the nearest one. Below 2^-14 its step is 2^-24, which is the step of floats from 0.5 to 1.
  static constexpr uint16_t rounded(float f) {
    constexpr uint32_t infinite = 0x7f800000, too_large = 0x47800000, least_normal = 0x38800000, bias = 0x38000000;
    const uint32_t u = std::bit_cast<uint32_t>(f), sign = u >> 16 & 0x8000, size = u & 0x7fffffff;
    if (size > infinite) return uint16_t(sign | 0x7e00);
    if (size >= too_large) return uint16_t(sign | 0x7c00);
    if (size < least_normal)
      return uint16_t(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - std::bit_cast<uint32_t>(0.5f)));
    return uint16_t(sign | ((size - bias + 0xfff + (size >> 13 & 1)) >> 13));
  }

  static constexpr float widened(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, size = bits & 0x7fff;
    if (size < 0x400) return std::bit_cast<float>(std::bit_cast<uint32_t>(float(size) * 0x1p-24f) | sign);
    return std::bit_cast<float>(sign | (size < 0x7c00 ? (size << 13) + 0x38000000 : (size << 13) | 0x7f800000));
  }
};

static_assert(sizeof(F16) == 2);

}  // namespace spillway
