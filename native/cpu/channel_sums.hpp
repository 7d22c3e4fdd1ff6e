// Sums over the pixels of a value, one for each channel, in double. Rows are cut into blocks by their number only; each
// block's partial sums are merged in block order. Invariant: the same bits for any number of threads.
// In: views of one box, a term(channel, elements, sums). Out: `Sums` totals per channel at the head of the scratch.
#pragma once
#include "cpu/runs.hpp"

namespace spillway::cpu {

inline int64_t sum_blocks(const View& v) { return std::min<int64_t>(v.dims[0] * v.dims[2], 32); }

template <int Sums>
int64_t channel_sums_bytes(const View& v) {
  return sum_blocks(v) * Sums * v.dims[1] * int64_t(sizeof(double));
}

/// Adds one row's terms for channels [first, first + lanes) to the block's sums.
template <int Sums, size_t N, class Term>
void add_row(const std::array<const View*, N>& views, int64_t row, int64_t first, int64_t lanes, double* sums, const Term& term) {
  constexpr int64_t width = 16;
  const View& v = *views[0];
  double total[Sums][width] = {};
  Pointers<N> at;
  for (size_t i = 0; i < N; i++) at[i] = pixel_of(*views[i], row / v.dims[2], row % v.dims[2], 0) + first;
  const auto pixel = [&](int64_t count) {
#pragma omp simd
    for (int64_t lane = 0; lane < count; lane++) {
      std::array<double, N> element;
      for (size_t i = 0; i < N; i++) element[i] = at[i][lane];
      const std::array<double, Sums> terms = term(first + lane, element);
      for (int s = 0; s < Sums; s++) total[s][lane] += terms[s];
    }
    for (size_t i = 0; i < N; i++) at[i] += views[i]->strides[3];
  };
  if (lanes == width)
    for (int64_t w = 0; w < v.dims[3]; w++) pixel(width);
  else
    for (int64_t w = 0; w < v.dims[3]; w++) pixel(lanes);
  for (int s = 0; s < Sums; s++)
    for (int64_t lane = 0; lane < lanes; lane++) sums[s * v.dims[1] + first + lane] += total[s][lane];
}

/// `scratch` holds channel_sums_bytes<Sums>(); afterwards its first Sums*C doubles are the totals, sum after sum.
template <int Sums, size_t N, class Term>
void channel_sums(const std::array<const View*, N>& views, double* scratch, const Term& term) {
  const View& v = *views[0];
  const int64_t rows = v.dims[0] * v.dims[2], channels = v.dims[1], blocks = sum_blocks(v), width = Sums * channels;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; block++) {
    double* sums = scratch + block * width;
    std::fill_n(sums, width, 0.0);
    for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
      for (int64_t first = 0; first < channels; first += 16)
        add_row<Sums>(views, row, first, std::min<int64_t>(16, channels - first), sums, term);
  }
  for (int64_t block = 1; block < blocks; block++)
#pragma omp simd
    for (int64_t i = 0; i < width; i++) scratch[i] += scratch[block * width + i];
}

}  // namespace spillway::cpu
