// Zeros of activations, of either sign. In: numbers, or a value without gaps. Out: true if all are 0; NaN is not. Invariant: the first
// number that is not 0 ends the search, so values of an image with data cost nothing.
#pragma once
#include <algorithm>
#include <type_traits>

#include "cpu/stored.hpp"

namespace spillway::cpu {

template <class T>
bool all_zero(const T* from, int64_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
  constexpr int64_t at_once = 16;
  const Bits* const bits = reinterpret_cast<const Bits*>(from);
  for (int64_t at = 0; at < count; at += at_once) {
    Bits any = 0;
    for (int64_t i = at; i < std::min(at + at_once, count); i++) any |= bits[i];
    if (Bits(any << 1) != 0) return false;
  }
  return true;
}

inline bool all_zero(const View& v) {
  bool all = false;
  with_element(v, [&](auto element) { all = all_zero(static_cast<const decltype(element)*>(v.data), ops::elements(v)); });
  return all;
}

}  // namespace spillway::cpu
