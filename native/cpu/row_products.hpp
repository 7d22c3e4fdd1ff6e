// Products of small dense matrices of floats, a block of columns at a time: attention, and products of two values.
#pragma once
#include "cpu/stored.hpp"

namespace spillway::cpu {

/// out[r][j] = Σ_e a[r][e]·b[e][j] for rows of `width`, `lanes` columns at a time.
inline void multiply_rows(const float* a, const float* b, float* out, int64_t rows, int64_t inner, int64_t width) {
  for (int64_t first = 0; first < width; first += lanes) {
    const int64_t count = std::min(lanes, width - first);
    for (int64_t r = 0; r < rows; r++) {
      float sums[lanes] = {};
      for (int64_t e = 0; e < inner; e++) {
        const float factor = a[r * inner + e];
        const float* const row = b + e * width + first;
#pragma omp simd
        for (int64_t j = 0; j < count; j++) sums[j] += factor * row[j];
      }
      std::copy_n(sums, count, out + r * width + first);
    }
  }
}

}  // namespace spillway::cpu
