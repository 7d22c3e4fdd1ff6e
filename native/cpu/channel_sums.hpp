// Sums over the pixels of a value, one for each channel, in double. Rows are cut into blocks by their number only; each
// block's partial sums are merged in block order. Invariant: the same bits for any number of threads.
// In: views of one box, per-channel constants, and terms(elements, constants) that gives one pixel's share in Element (float:
// four pixels' shares are added before they are widened), for one channel or as many as a register holds alike.
// Out: `Sums` totals per channel at the head of the scratch.
#pragma once
#include <cstring>
#include <type_traits>

#include "cpu/runs.hpp"

namespace spillway::cpu {

/// Channels side by side; the compiler splits them where the machine is narrower. Four doubles are what compilers widen
/// four floats to in one instruction.
using Floats = float __attribute__((vector_size(64)));
using Doubles = double __attribute__((vector_size(32)));
using FourFloats = float __attribute__((vector_size(16)));

template <class V>
V read(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline Doubles widened(const float* from) { return __builtin_convertvector(read<FourFloats>(from), Doubles); }

inline void load(const float* from, float& to) { to = *from; }
inline void load(const float* from, double& to) { to = double(*from); }
inline void load(const float* from, Floats& to) { to = read<Floats>(from); }
inline void load(const float* from, Doubles& to) { to = widened(from); }

inline void add_to(double* sums, double total) { *sums += total; }
inline void add_to(double* sums, const Doubles& total) {
  const Doubles held = read<Doubles>(sums) + total;
  std::memcpy(sums, &held, sizeof held);
}
inline void add_to(double* sums, const Floats& total) {
  constexpr size_t width = sizeof(Doubles) / sizeof(double);
  float narrow[sizeof(Floats) / sizeof(float)];
  std::memcpy(narrow, &total, sizeof total);
  for (size_t i = 0; i < std::size(narrow); i += width) add_to(sums + i, widened(narrow + i));
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

/// A few pixels of one row, which are walked side by side: their terms meet in registers.
struct Stretch {
  int64_t row, from, to;
};
constexpr int64_t stretch_pixels = 4;

/// Fetches the next stretch in the order in which it lies, which the walk down the pixels' channels does not follow: without
/// this, memory gives a third of what it can.
template <size_t N>
struct Ahead {
  std::array<const float*, N> at;
  template <size_t K>
  Ahead(const Summands<N, K>& of, const std::array<const float*, N>& now, int64_t channel) {
    for (size_t i = 0; i < N; i++) at[i] = now[i] + stretch_pixels * of.views[i]->strides[3] + (stretch_pixels - 1) * channel;
  }
  void fetch(int64_t floats) {
    for (const float*& line : at) {
      __builtin_prefetch(line);
      line += floats;
    }
  }
};

/// Adds a stretch's terms for the channels from `first` on, as many as V holds.
template <class V, int64_t width, int Sums, size_t N, size_t K, class Term>
void add_stretch(const Summands<N, K>& of, Stretch s, int64_t first, double* sums, const Term& term) {
  const View& v = *of.views[0];
  std::array<const float*, N> at;
  for (size_t i = 0; i < N; i++) at[i] = pixel_of(*of.views[i], s.row / v.dims[2], s.row % v.dims[2], s.from) + first;
  std::array<V, K> constants;
  for (size_t i = 0; i < K; i++) load(of.constants[i] + first, constants[i]);
  Ahead<N> ahead(of, at, first);
  std::array<V, Sums> totals{};
  for (int64_t w = s.from; w < s.to; w++) {
    ahead.fetch(width);
    std::array<V, N> elements;
    for (size_t i = 0; i < N; i++) {
      load(at[i], elements[i]);
      at[i] += of.views[i]->strides[3];
    }
    const std::array<V, Sums> terms = term(elements, constants);
    for (int t = 0; t < Sums; t++) totals[t] += terms[t];
  }
  for (int t = 0; t < Sums; t++) add_to(sums + t * v.dims[1] + first, totals[t]);
}

template <class Element, int Sums, size_t N, size_t K, class Term>
void add_row(const Summands<N, K>& of, int64_t row, double* sums, const Term& term) {
  using Lanes = std::conditional_t<std::is_same_v<Element, float>, Floats, Doubles>;
  constexpr int64_t width = sizeof(Lanes) / sizeof(Element);
  const int64_t pixels = of.views[0]->dims[3], channels = of.views[0]->dims[1];
  for (int64_t from = 0; from < pixels; from += stretch_pixels) {
    const Stretch stretch{row, from, std::min(pixels, from + stretch_pixels)};
    int64_t channel = 0;
    for (; channel + width <= channels; channel += width) add_stretch<Lanes, width, Sums>(of, stretch, channel, sums, term);
    for (; channel < channels; channel++) add_stretch<Element, 1, Sums>(of, stretch, channel, sums, term);
  }
}

/// `scratch` holds channel_sums_bytes<Sums>(); afterwards its first Sums*C doubles are the totals, sum after sum.
template <class Element, int Sums, size_t N, size_t K, class Term>
void channel_sums(const Summands<N, K>& of, double* scratch, const Term& term) {
  const View& v = *of.views[0];
  const int64_t rows = v.dims[0] * v.dims[2], channels = v.dims[1], blocks = sum_blocks(v), width = Sums * channels;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; block++) {
    double* sums = scratch + block * width;
    std::fill_n(sums, width, 0.0);
    for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++) add_row<Element, Sums>(of, row, sums, term);
  }
  for (int64_t block = 1; block < blocks; block++)
#pragma omp simd
    for (int64_t i = 0; i < width; i++) scratch[i] += scratch[block * width + i];
}

/// Deviations from a centre and their squares.
inline constexpr auto squared_deviations = [](const auto& element, const auto& centre) {
  const auto deviation = element[0] - centre[0];
  return std::array{deviation, deviation * deviation};
};

/// The second element times the first one's deviation from a centre, and the second element.
inline constexpr auto centred_products = [](const auto& element, const auto& centre) {
  return std::array{(element[0] - centre[0]) * element[1], element[1]};
};

/// A bias's gradient: the sum of dy. `scratch` holds channel_sums_bytes<1>().
inline void bias_gradient(const View& dy, void* scratch, const View& db) {
  double* const sums = static_cast<double*>(scratch);
  const Summands<1, 0> of{{&dy}, {}};
  channel_sums<float, 1>(of, sums, [](const auto& element, const auto&) { return std::array{element[0]}; });
  std::copy_n(sums, dy.dims[1], floats(db));
}

}  // namespace spillway::cpu
