// Philox4x32-10: a counter and a key give four random 32-bit words, without state (Salmon et al., SC 2011). In: the
// position of an element in its stream. Out: its word, the same in every tile, thread and recomputation. Invariant:
// streams of different (seed, stream, domain) never share a counter.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace spillway {

using PhiloxWords = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxWords philox4x32(PhiloxWords counter, PhiloxKey key) {
  constexpr uint64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    const uint64_t product0 = multiplier0 * counter[0], product1 = multiplier1 * counter[2];
    counter = {uint32_t(product1 >> 32) ^ counter[1] ^ key[0], uint32_t(product1), uint32_t(product0 >> 32) ^ counter[3] ^ key[1],
               uint32_t(product0)};
    key = {key[0] + weyl0, key[1] + weyl1};
  }
  return counter;
}

/// The use of the numbers: initial values and synthetic data, or the masks of a step. Blocks are below 2^62, so two
/// bits are free.
enum class RandomDomain : uint64_t { values = 0, dropout = 1 };

/// The four words of elements [4*block, 4*block + 4) of a stream.
constexpr PhiloxWords philox_block(uint64_t seed, uint64_t stream, uint64_t block, RandomDomain domain) {
  const uint64_t position = block | (uint64_t(domain) << 62);
  return philox4x32({uint32_t(position), uint32_t(position >> 32), uint32_t(stream), uint32_t(stream >> 32)},
                    {uint32_t(seed), uint32_t(seed >> 32)});
}

/// In (0, 1), exact in double.
constexpr double uniform_of(uint32_t word) { return (double(word) + 0.5) * 0x1p-32; }

/// The stream of one dropout in one step.
constexpr uint64_t dropout_stream(uint64_t step, uint32_t key) { return (step << 32) | key; }

/// The words from this one on keep their element: those whose uniform number is at least p, in [0, 1).
inline uint32_t dropout_threshold(double p) { return uint32_t(std::clamp(std::ceil(p * 0x1p32 - 0.5), 0.0, 0x1p32 - 1)); }

/// Returns true if dropout keeps the element with this index of the whole value (B, C, H, W order).
constexpr bool dropout_keeps(uint64_t seed, uint64_t stream, uint64_t element, uint32_t threshold) {
  const PhiloxWords words = philox_block(seed, stream, element >> 2, RandomDomain::dropout);
  const uint32_t low = element & 1 ? words[1] : words[0], high = element & 1 ? words[3] : words[2];
  return (element & 2 ? high : low) >= threshold;
}

}  // namespace spillway
