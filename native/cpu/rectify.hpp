// A rectifier inside another kernel's loop, or over a view. In: its slope and a body that takes the rectifier. Out: the body, run with one
// of two rectifiers without a branch on the slope, which would keep the compiler from vectorising the loop.
// Invariant: slope 0 gives 0 for minus infinity, and NaN passes through, as in relu.cpp.
#pragma once
#include "cpu/runs.hpp"

namespace spillway::cpu {

/// Calls body(rectifier); rectifier(z, passed) is `passed` above zero and slope·passed at zero and below, of floats or blocks of them.
/// Loops use a copy of their own: one that a store might change would not be vectorised.
template <class Body>
void with_rectifier(float slope, const Body& body) {
  if (slope == 0) body([]<class V>(const V& z, const V& passed) { return z <= 0 ? V{} : passed; });
  // A product that only one side needs would not be vectorised: it may raise an exception.
  else
    body([slope]<class V>(const V& z, const V& passed) { return passed * (z <= 0 ? V{} + slope : V{} + 1.0f); });
}

inline void rectify(const View& y, float slope) {
  with_rectifier(slope, [&y](auto rectifier) {
    each_run<1>({&y}, [rectifier](Pointers<1> at, int64_t n) {
      float* const value = at[0];
      const auto passing = rectifier;
#pragma omp simd
      for (int64_t i = 0; i < n; i++) value[i] = passing(value[i], value[i]);
    });
  });
}

}  // namespace spillway::cpu
