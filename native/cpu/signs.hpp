// A bit for each channel of a pixel, 32 to a word. In: blocks or single channels. Out: bits of channels above zero, and the values
// with a set bit. Invariant: NaN passes, as in relu.cpp.
#pragma once
#include "cpu/blocks.hpp"
#include "ops/residualnorm.hpp"

namespace spillway::cpu {

/// Each channel's bit.
constexpr BlockBits own_bits{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};

/// The bits of channels that stand side by side, from bit 0 on.
inline uint32_t signs_of(const Block& z) {
#ifdef __AVX512F__
  __m512 lanes;
  std::memcpy(&lanes, &z, sizeof lanes);
  return _mm512_cmp_ps_mask(lanes, _mm512_setzero_ps(), _CMP_NLE_UQ);
#else
  const BlockBits set = ~BlockBits(z <= 0) & own_bits;
  uint32_t bits = 0;
  for (int64_t i = 0; i < block_width; i++) bits |= set[i];
  return bits;
#endif
}
inline uint32_t signs_of(float z) { return !(z <= 0); }

/// `above` where a bit is set, `below` elsewhere.
inline Block by_signs(uint32_t bits, const Block& above, const Block& below) {
  return ((BlockBits{} + bits) & own_bits) != 0 ? above : below;
}
inline float by_signs(uint32_t bits, float above, float below) { return bits & 1 ? above : below; }

/// The bits of a block's channels, or of one, from a channel on. They may begin in one word and end in the next.
template <class V>
uint32_t signs_at(const uint32_t* words, int64_t channel) {
  const int64_t word = channel / ops::SIGNS_PER_WORD, passed = channel % ops::SIGNS_PER_WORD;
  const uint32_t bits = words[word] >> passed;
  if (std::is_same_v<V, float> || passed + block_width <= ops::SIGNS_PER_WORD) return bits;
  return bits | words[word + 1] << (ops::SIGNS_PER_WORD - passed);
}

/// dz from dy: what the rectifier of this slope lets through.
template <class V>
V passed(uint32_t bits, float slope, const V& dy) {
  return by_signs(bits, dy, slope == 0 ? V{} : dy * slope);
}

}  // namespace spillway::cpu
