// Floats, bf16 and f16 as the imitated libraries read and store them, computed apart from the project's own code.
#pragma once
#include <cstdint>
#include <cstring>

namespace spillway::host_cuda {

inline float of_bits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
inline uint32_t bits_of(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

/// The upper `kept` bits of a float's 32, to the nearest, ties to even.
inline float rounded(float f, int kept) {
  if (f != f) return f;
  const uint32_t dropped = 32 - uint32_t(kept), bits = bits_of(f);
  return of_bits((bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped << dropped);
}

enum class Number { f32, bf16, f16 };
inline int64_t bytes_of(Number n) { return n == Number::f32 ? 4 : 2; }

inline float read_number(const void* at, int64_t i, Number n) {
  if (n == Number::f16) return float(static_cast<const _Float16*>(at)[i]);
  return n == Number::bf16 ? of_bits(uint32_t(static_cast<const uint16_t*>(at)[i]) << 16) : static_cast<const float*>(at)[i];
}
inline void store_number(void* at, int64_t i, Number n, float f) {
  if (n == Number::f16)
    static_cast<_Float16*>(at)[i] = _Float16(f);
  else if (n == Number::bf16)
    static_cast<uint16_t*>(at)[i] = uint16_t(bits_of(rounded(f, 16)) >> 16);
  else
    static_cast<float*>(at)[i] = f;
}

/// How an engine takes its factors.
enum class Rounding { none, tf32, coarse };
inline float factor(float f, Rounding r) { return r == Rounding::none ? f : rounded(f, r == Rounding::tf32 ? 19 : 12); }

/// A library's scratch: all of it is written.
inline void scribble(void* at, int64_t bytes) {
  if (bytes > 0) std::memset(at, 0xff, size_t(bytes));
}

}  // namespace spillway::host_cuda
