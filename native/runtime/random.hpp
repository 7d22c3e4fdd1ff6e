// Random and constant values for parameters and synthetic data, by counter: element i of a stream depends on
// (seed, stream, i) only, so any sub-range can be made alone, in any order, on any thread, in f32 or f64.
#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/philox.hpp"
#include "gen/wire.h"

namespace spillway {

struct RandomStream {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

/// A stream's number from a name (FNV-1a 64), so that a parameter's values depend on no order.
constexpr uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return hash;
}

using RandomQuad = std::array<double, 4>;

inline RandomQuad uniform_quad(const PhiloxWords& words) {
  return {uniform_of(words[0]), uniform_of(words[1]), uniform_of(words[2]), uniform_of(words[3])};
}

/// Box and Muller's pairs.
inline RandomQuad normal_quad(const PhiloxWords& words) {
  RandomQuad quad{};
  for (int pair = 0; pair < 2; pair++) {
    const double radius = std::sqrt(-2.0 * std::log(uniform_of(words[2 * pair])));
    const double angle = 2.0 * std::numbers::pi * uniform_of(words[2 * pair + 1]);
    quad[2 * pair] = radius * std::cos(angle);
    quad[2 * pair + 1] = radius * std::sin(angle);
  }
  return quad;
}

/// Elements [first, first + count) of a stream: uniform in (-a, a), normal with deviation a, or the constant a.
template <class T>
void fill_random(T* out, uint64_t first, uint64_t count, Dist dist, double a, RandomStream key) {
  if (dist == Dist::none || dist == Dist::constant) {
    std::fill_n(out, count, T(dist == Dist::none ? 0.0 : a));
    return;
  }
  const uint64_t last = first + count;
  for (uint64_t block = first / 4; block * 4 < last; block++) {
    const PhiloxWords words = philox_block(key.seed, key.stream, block, RandomDomain::values);
    const RandomQuad quad = dist == Dist::normal ? normal_quad(words) : uniform_quad(words);
    for (uint64_t i = std::max(first, block * 4); i < std::min(last, block * 4 + 4); i++)
      out[i - first] = T(dist == Dist::normal ? a * quad[i & 3] : a * (2.0 * quad[i & 3] - 1.0));
  }
}

/// Elements [first, first + count) of a stream of class labels in [0, classes).
inline void fill_labels(int32_t* out, uint64_t first, uint64_t count, uint32_t classes, RandomStream key) {
  for (uint64_t i = first; i < first + count; i++) {
    const PhiloxWords words = philox_block(key.seed, key.stream, i / 4, RandomDomain::values);
    out[i - first] = int32_t((uint64_t(words[i & 3]) * classes) >> 32);
  }
}

}  // namespace spillway
