// Sums over the pixels of a value, one for each channel, in double. Rows are cut into blocks by their number only; each
// block's partial sums are merged in block order. Invariant: the same bits for any number of threads.
// In: views of one box, per-channel constants, and a term(elements, constants, sums) that adds one pixel's share, for
// one channel (double) or eight (Lanes) alike. Out: `Sums` totals per channel at the head of the scratch.
#pragma once
#include <cstring>

#include "cpu/runs.hpp"

namespace spillway::cpu {

/// Eight channels side by side; the compiler splits it where the machine is narrower.
using Lanes = double __attribute__((vector_size(64)));
constexpr int64_t lanes_width = 8;

inline void widen(const float* from, double& to) { to = double(*from); }
inline void widen(const float* from, Lanes& to) {
  float narrow __attribute__((vector_size(32)));
  std::memcpy(&narrow, from, sizeof narrow);
  to = __builtin_convertvector(narrow, Lanes);
}
inline void add_to(double* sums, const double& term) { *sums += term; }
inline void add_to(double* sums, const Lanes& term) {
  Lanes held;
  std::memcpy(&held, sums, sizeof held);
  held += term;
  std::memcpy(sums, &held, sizeof held);
}

inline int64_t sum_blocks(const View& v) { return std::min<int64_t>(v.dims[0] * v.dims[2], 32); }

template <int Sums>
int64_t channel_sums_bytes(const View& v) {
  return sum_blocks(v) * Sums * v.dims[1] * int64_t(sizeof(double));
}

/// Views that are summed over, and arrays of one float a channel that the terms use.
template <size_t N, size_t K>
struct Summands {
  std::array<const View*, N> views;
  std::array<const float*, K> constants;
};

/// A few pixels of one row: each is one stream of reads, and memory likes few of them.
struct Stretch {
  int64_t row, from, to;
};
constexpr int64_t stretch_pixels = 4;

/// Adds a stretch's terms for the channels from `first` on, as many as V holds.
template <class V, int Sums, size_t N, size_t K, class Term>
void add_stretch(const Summands<N, K>& of, Stretch s, int64_t first, double* sums, const Term& term) {
  const View& v = *of.views[0];
  std::array<const float*, N> at;
  for (size_t i = 0; i < N; i++) at[i] = pixel_of(*of.views[i], s.row / v.dims[2], s.row % v.dims[2], s.from) + first;
  std::array<V, K> constants;
  for (size_t i = 0; i < K; i++) widen(of.constants[i] + first, constants[i]);
  std::array<V, Sums> total{};
  for (int64_t w = s.from; w < s.to; w++) {
    std::array<V, N> elements;
    for (size_t i = 0; i < N; i++) {
      widen(at[i], elements[i]);
      at[i] += of.views[i]->strides[3];
    }
    term(elements, constants, total);
  }
  for (int t = 0; t < Sums; t++) add_to(sums + t * v.dims[1] + first, total[t]);
}

template <int Sums, size_t N, size_t K, class Term>
void add_row(const Summands<N, K>& of, int64_t row, double* sums, const Term& term) {
  const int64_t pixels = of.views[0]->dims[3], channels = of.views[0]->dims[1];
  for (int64_t from = 0; from < pixels; from += stretch_pixels) {
    const Stretch stretch{row, from, std::min(pixels, from + stretch_pixels)};
    int64_t channel = 0;
    for (; channel + lanes_width <= channels; channel += lanes_width) add_stretch<Lanes, Sums>(of, stretch, channel, sums, term);
    for (; channel < channels; channel++) add_stretch<double, Sums>(of, stretch, channel, sums, term);
  }
}

/// `scratch` holds channel_sums_bytes<Sums>(); afterwards its first Sums*C doubles are the totals, sum after sum.
template <int Sums, size_t N, size_t K, class Term>
void channel_sums(const Summands<N, K>& of, double* scratch, const Term& term) {
  const View& v = *of.views[0];
  const int64_t rows = v.dims[0] * v.dims[2], channels = v.dims[1], blocks = sum_blocks(v), width = Sums * channels;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; block++) {
    double* sums = scratch + block * width;
    std::fill_n(sums, width, 0.0);
    for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++) add_row<Sums>(of, row, sums, term);
  }
  for (int64_t block = 1; block < blocks; block++)
#pragma omp simd
    for (int64_t i = 0; i < width; i++) scratch[i] += scratch[block * width + i];
}

}  // namespace spillway::cpu
