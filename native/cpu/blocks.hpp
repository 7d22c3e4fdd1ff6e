// Sixteen channels side by side in a register, as floats. In and out: memory that holds floats or bf16; bf16 becomes floats when it is
// read and rounded, to nearest even, when it is written.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/half.hpp"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace spillway::cpu {

/// Channels come in blocks of this many.
constexpr int64_t block_width = 16;

/// The compiler splits them where the machine is narrower.
using Block = float __attribute__((vector_size(64)));
using BlockBits = uint32_t __attribute__((vector_size(64)));
using BlockLanes = int32_t __attribute__((vector_size(64)));
using Bf16Block = uint16_t __attribute__((vector_size(32)));

/// Each lane's number.
constexpr BlockLanes own_lanes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

inline Block load_block(const float* from) {
  Block b;
  std::memcpy(&b, from, sizeof b);
  return b;
}
inline Block load_block(const Bf16* from) {
  Bf16Block bits;
  std::memcpy(&bits, from, sizeof bits);
  return std::bit_cast<Block>(__builtin_convertvector(bits, BlockBits) << 16);
}

/// Eight of a block's lanes, as doubles.
using HalfBlock = double __attribute__((vector_size(64)));
inline std::array<HalfBlock, 2> widened(const Block& b) {
#ifdef __AVX512F__
  const __m512d bits = std::bit_cast<__m512d>(b);
  const auto doubles = [](__m256d half) { return std::bit_cast<HalfBlock>(_mm512_maskz_cvtps_pd(0xff, _mm256_castpd_ps(half))); };
  return {doubles(_mm512_maskz_extractf64x4_pd(0xff, bits, 0)), doubles(_mm512_maskz_extractf64x4_pd(0xff, bits, 1))};
#else
  // Compilers convert four lanes in one instruction.
  using FourFloats = float __attribute__((vector_size(16)));
  using FourDoubles = double __attribute__((vector_size(32)));
  const auto fours = std::bit_cast<std::array<FourFloats, 4>>(b);
  std::array<FourDoubles, 4> doubles;
  for (size_t i = 0; i < fours.size(); i++) doubles[i] = __builtin_convertvector(fours[i], FourDoubles);
  return std::bit_cast<std::array<HalfBlock, 2>>(doubles);
#endif
}
inline std::array<double, 1> widened(float f) { return {double(f)}; }

inline Block narrowed(const std::array<HalfBlock, 2>& halves) {
#ifdef __AVX512F__
  using EightFloats = float __attribute__((vector_size(32)));
  const auto floats = [](const HalfBlock& half) {
    return std::bit_cast<EightFloats>(_mm512_maskz_cvtpd_ps(0xff, std::bit_cast<__m512d>(half)));
  };
  return __builtin_shufflevector(floats(halves[0]), floats(halves[1]), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  using FourFloats = float __attribute__((vector_size(16)));
  using FourDoubles = double __attribute__((vector_size(32)));
  const auto doubles = std::bit_cast<std::array<FourDoubles, 4>>(halves);
  std::array<FourFloats, 4> fours;
  for (size_t i = 0; i < fours.size(); i++) fours[i] = __builtin_convertvector(doubles[i], FourFloats);
  return std::bit_cast<Block>(fours);
#endif
}
inline float narrowed(const std::array<double, 1>& d) { return float(d[0]); }

inline void store_block(float* to, const Block& b) { std::memcpy(to, &b, sizeof b); }
/// The bits of the nearest bf16.
inline BlockBits bf16_bits(const Block& b) {
  const BlockBits u = std::bit_cast<BlockBits>(b);
  const BlockBits up = (u + 0x7fff + (u >> 16 & 1)) >> 16, quiet = u >> 16 | 0x40;
  return b != b ? quiet : up;
}
/// The processor's own conversion, where there is one, rounds in the same way, but it takes denormals for zeros: for them, the other.
inline Bf16Block nearest_bf16(const Block& b) {
#ifdef __AVX512BF16__
  constexpr int denormal = 0x20;
  const __m512 lanes = std::bit_cast<__m512>(b);
  if (__builtin_expect(_mm512_fpclass_ps_mask(lanes, denormal) == 0, 1)) return std::bit_cast<Bf16Block>(_mm512_cvtneps_pbh(lanes));
#endif
  return __builtin_convertvector(bf16_bits(b), Bf16Block);
}
inline void store_block(Bf16* to, const Block& b) {
  const Bf16Block bits = nearest_bf16(b);
  std::memcpy(to, &bits, sizeof bits);
}
/// Two blocks as bf16, lane by lane side by side.
inline void store_pairs(Bf16* to, const Block& first, const Block& second) {
  const BlockBits bits = bf16_bits(first) | bf16_bits(second) << 16;
  std::memcpy(to, &bits, sizeof bits);
}

/// One channel, or a block of them: V is float or Block.
template <class V, class T>
V load_as(const T* from) {
  if constexpr (std::is_same_v<V, Block>)
    return load_block(from);
  else
    return V(*from);
}
template <class T>
void store_as(T* to, const Block& b) {
  store_block(to, b);
}
template <class T>
void store_as(T* to, float f) {
  *to = T(f);
}

/// Stores a block past the caches, to an address that is a multiple of 64. It is for values that are too large to
/// stay in a cache until they are read.
inline void stream_block(float* to, const Block& b) {
#ifdef __AVX512F__
  __m512 lanes;
  std::memcpy(&lanes, &b, sizeof b);
  _mm512_stream_ps(to, lanes);
#else
  store_block(to, b);
#endif
}
/// Makes the streamed blocks of this thread visible to all later operations.
inline void end_stream() {
#ifdef __AVX512F__
  _mm_sfence();
#endif
}

}  // namespace spillway::cpu
