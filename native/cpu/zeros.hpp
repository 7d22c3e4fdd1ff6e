// Zeros of activations, of either sign. In: floats or bf16. Out: true if all are 0; NaN is not. Invariant: if one of the first sixteen
// numbers is not 0, the search ends there. So pixels with data cost little.
#pragma once
#include "cpu/blocks.hpp"

namespace spillway::cpu {

/// The bits of sixteen numbers, without their signs.
inline BlockBits magnitudes(const float* from) {
  BlockBits bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits << 1;
}
inline BlockBits magnitudes(const Bf16* from) {
  Bf16Block bits;
  std::memcpy(&bits, from, sizeof bits);
  return __builtin_convertvector(bits, BlockBits) << 17;
}
inline bool any(const BlockBits& bits) {
#ifdef __AVX512F__
  const __m512i lanes = std::bit_cast<__m512i>(bits);
  return _mm512_test_epi32_mask(lanes, lanes) != 0;
#else
  uint32_t all = 0;
  for (int i = 0; i < block_width; i++) all |= bits[i];
  return all != 0;
#endif
}

template <class T>
bool all_zero(const T* from, int64_t count) {
  int64_t at = 0;
  if (count >= block_width) {
    if (any(magnitudes(from))) return false;
    BlockBits held{};
    for (at = block_width; at + block_width <= count; at += block_width) held |= magnitudes(from + at);
    if (any(held)) return false;
  }
  for (; at < count; at++)
    if (float(from[at]) != 0) return false;
  return true;
}

}  // namespace spillway::cpu
