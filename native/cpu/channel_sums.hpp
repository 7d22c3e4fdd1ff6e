// Sums over the pixels of a value, one for each channel, in double. Rows are cut into blocks by their number only; each
// block's partial sums are merged in block order. Invariant: the same bits for any number of threads.
// In: views of one box, stored alike, per-channel constants, and terms(elements, constants) that gives one pixel's share in Element, for
// one channel or as many as a register holds alike. Floats add a few pixels' shares before they become doubles.
// Out: `Sums` totals per channel at the head of the scratch.
#pragma once
#include <cstring>
#include <type_traits>

#include "cpu/blocks.hpp"
#include "cpu/runs.hpp"
#include "cpu/signs.hpp"
#include "ops/joinednorm.hpp"

namespace spillway::cpu {

/// Channels side by side; the compiler splits them for narrower machines. Compilers widen four floats to four doubles
/// in one instruction.
using Floats = Block;
using Doubles = double __attribute__((vector_size(32)));
using FourFloats = float __attribute__((vector_size(16)));

template <class V>
V read(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline Doubles to_doubles(const float* from) { return __builtin_convertvector(read<FourFloats>(from), Doubles); }

inline void load(const float* from, float& to) { to = *from; }
inline void load(const float* from, double& to) { to = double(*from); }
inline void load(const float* from, Floats& to) { to = read<Floats>(from); }
inline void load(const float* from, Doubles& to) { to = to_doubles(from); }

inline void load(const Bf16* from, float& to) { to = float(*from); }
inline void load(const Bf16* from, double& to) { to = double(*from); }
inline void load(const Bf16* from, Floats& to) { to = load_block(from); }
inline void load(const Bf16* from, Doubles& to) {
  using Halves = uint16_t __attribute__((vector_size(8)));
  using Words = uint32_t __attribute__((vector_size(16)));
  to = __builtin_convertvector(std::bit_cast<FourFloats>(__builtin_convertvector(read<Halves>(from), Words) << 16), Doubles);
}

inline void add_to(double* sums, double total) { *sums += total; }
inline void add_to(double* sums, const Doubles& total) {
  const Doubles held = read<Doubles>(sums) + total;
  std::memcpy(sums, &held, sizeof held);
}
inline void add_to(double* sums, const Floats& total) {
  const auto halves = widened(total);
  for (size_t i = 0; i < halves.size(); i++) {
    const HalfBlock held = read<HalfBlock>(sums + 8 * i) + halves[i];
    std::memcpy(sums + 8 * i, &held, sizeof held);
  }
}

/// The lanes from `from` on; those before are 0.
inline Floats last_lanes(const Floats& v, int64_t from) { return own_lanes >= int32_t(from) ? v : Floats{}; }
inline Doubles last_lanes(Doubles v, int64_t from) {
  for (int64_t i = 0; i < from; i++) v[i] = 0;
  return v;
}
inline float last_lanes(float v, int64_t) { return v; }
inline double last_lanes(double v, int64_t) { return v; }

inline int64_t sum_blocks(const View& v) { return std::min<int64_t>(v.dims[0] * v.dims[2], 32); }

template <int Sums>
int64_t channel_sums_bytes(const View& v) {
  return sum_blocks(v) * Sums * v.dims[1] * int64_t(sizeof(double));
}

/// The views of a sum: the first element of a pixel is in parts side by side along C, the others are in views of all channels. The
/// terms also use arrays of one float for each channel. Signs are a third argument of the terms: a bit for each of the current
/// channels, from bit 0 on.
template <size_t N, size_t K, bool Signed = false>
struct Summands {
  ops::Parts parts;
  std::array<const View*, N - 1> whole;
  std::array<const float*, K> constants;
  const View* signs = nullptr;
};

/// A few pixels of a row are walked side by side: their terms meet in registers. A sum of one operand has registers left for more.
template <size_t N>
constexpr int64_t stretch_pixels = N == 1 ? 8 : 4;

/// From the end of a stretch to the memory that is prefetched: the time of a few reads.
constexpr int64_t ahead_bytes = 4096;

/// Those pixels of one of the views, from its first channel on. `line` runs ahead in memory order and is prefetched, because the walk over
/// the channels of pixels has another order. Without it, memory gives a third of its rate.
template <class T>
struct Stretch {
  const T* first = nullptr;
  int64_t step = 0;
  const T* line = nullptr;
};

/// A stretch of all views. The channels of `whole` and of the sums begin with those of the part.
template <class T, size_t N>
struct Stretches {
  std::array<Stretch<T>, N> of;
  bool is_zero;           // the only element is 0 everywhere, and stays unread
  const uint32_t* signs;  // of the first pixel, from its first channel on; or null
  int64_t signs_step, pixels, from;
};

/// Adds a stretch's terms for the channels from `first` of a part on, as many as V holds. The `known` first of them are in the sums
/// already.
template <class V, int Sums, bool Signed, class T, size_t N, size_t K, class Term>
[[gnu::always_inline]] inline void add_stretch(Stretches<T, N>& stretch, const std::array<const float*, K>& constants_at, int64_t first,
                                               int64_t known, int64_t channels, double* sums, const Term& term) {
  constexpr int64_t width = sizeof(V) / (std::is_same_v<V, double> || std::is_same_v<V, Doubles> ? sizeof(double) : sizeof(float));
  const int64_t channel = stretch.from + first;
  std::array<Stretch<T>, N> at = stretch.of;
  for (size_t i = 0; i < N; i++) at[i].first += stretch.is_zero ? 0 : i == 0 ? first : channel;
  std::array<V, K> constants;
  for (size_t i = 0; i < K; i++) load(constants_at[i] + channel, constants[i]);
  std::array<V, Sums> totals{};
  for (int64_t w = 0; w < stretch.pixels; w++) {
    std::array<V, N> elements;
    for (size_t i = 0; i < N; i++) {
      __builtin_prefetch(at[i].line + w * width);
      load(at[i].first + w * at[i].step, elements[i]);
    }
    const std::array<V, Sums> terms = [&] {
      if constexpr (Signed)
        return term(elements, constants, signs_at<V>(stretch.signs + w * stretch.signs_step, channel));
      else
        return term(elements, constants);
    }();
    for (int t = 0; t < Sums; t++) totals[t] += terms[t];
  }
  for (size_t i = 0; i < N; i++) stretch.of[i].line += stretch.pixels * width;
  for (int t = 0; t < Sums; t++) add_to(sums + t * channels + channel, known ? last_lanes(totals[t], known) : totals[t]);
}

template <class T, class Element, int Sums, size_t N, size_t K, bool Signed, class Term>
void add_row(const Summands<N, K, Signed>& of, int64_t row, int64_t channels, double* sums, const Term& term, const Outside* outside) {
  using Lanes = std::conditional_t<std::is_same_v<Element, float>, Floats, Doubles>;
  constexpr int64_t width = sizeof(Lanes) / sizeof(Element);
  static constexpr std::array<T, width> zeros{};
  const int64_t rows = of.parts[0].dims[2], pixels = of.parts[0].dims[3], image = row / rows, h = row % rows;
  const auto start = [&](const View& v) { return Stretch<T>{pixel_of<T>(v, image, h, 0), v.strides[3]}; };
  std::array<Stretch<T>, N> rows_of;
  for (size_t i = 1; i < N; i++) rows_of[i] = start(*of.whole[i - 1]);
  OutsideRow is_outside(outside, row);
  for (int64_t pixel = 0; pixel < pixels; pixel += stretch_pixels<N>) {
    const int64_t end = std::min(pixels, pixel + stretch_pixels<N>);
    int64_t unread = pixel;
    while (unread < end && is_outside(unread)) unread++;
    const bool is_zero = unread == end;
    // A gradient of 0 adds nothing.
    if (N > 1 && is_zero) continue;
    int64_t from = 0;
    for (uint32_t i = 0; i < of.parts.count; i++) {
      const View& part = of.parts[i];
      const int64_t held = part.dims[1];
      Stretches<T, N> stretch{{}, is_zero, nullptr, 0, end - pixel, from};
      rows_of[0] = start(part);
      for (size_t k = 0; k < N; k++) {
        const auto& [first, step, line] = rows_of[k];
        const T* const at = first + pixel * step;
        stretch.of[k] = {at, step, at + stretch_pixels<N> * step + ahead_bytes / int64_t(sizeof(T))};
      }
      if (is_zero) stretch.of[0] = {zeros.data(), 0, zeros.data()};
      if constexpr (Signed) {
        stretch.signs = pixel_of<uint32_t>(*of.signs, image, h, pixel);
        stretch.signs_step = of.signs->strides[3];
      }
      const auto add = [&]<class V>(V, int64_t first, int64_t known) {
        add_stretch<V, Sums, Signed>(stretch, of.constants, first, known, channels, sums, term);
      };
      if (held < width) {
        for (int64_t first = 0; first < held; first++) add(Element{}, first, 0);
      } else {
        int64_t first = 0;
        for (; first + width <= held; first += width) add(Lanes{}, first, 0);
        if (first < held) add(Lanes{}, held - width, width - (held - first));
      }
      from += held;
    }
  }
}

/// `scratch` holds channel_sums_bytes<Sums>(); afterwards its first Sums*C doubles are the totals, sum after sum. `outside`: pixels whose
/// only element or whose gradient is 0, which stay unread; or null. The totals have the same bits without it.
template <class Element, int Sums, size_t N, size_t K, bool Signed, class Term>
void channel_sums(const Summands<N, K, Signed>& of, double* scratch, const Term& term, const Outside* outside = nullptr) {
  const View& v = of.parts[0];
  const int64_t rows = v.dims[0] * v.dims[2], channels = of.parts.channels(), blocks = sum_blocks(v), width = Sums * channels;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; block++) {
    double* sums = scratch + block * width;
    std::fill_n(sums, width, 0.0);
    with_element(of.parts[0], [&](auto stored) {
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
        add_row<decltype(stored), Element, Sums>(of, row, channels, sums, term, outside);
    });
  }
  for (int64_t block = 1; block < blocks; block++)
#pragma omp simd
    for (int64_t i = 0; i < width; i++) scratch[i] += scratch[block * width + i];
}

/// Writes a value near each channel's mean: that of a few pixels, spaced evenly. Squares of deviations from it are of the variance's size,
/// so that little is lost in floats.
inline void near_means(const View& x, float* into) {
  const int64_t channels = x.dims[1], all = ops::pixels(x), few = std::min<int64_t>(all, 16);
  const auto pixel = [&](int64_t i) {
    const int64_t at = i * all / few, row = at / x.dims[3];
    return std::array{row / x.dims[2], row % x.dims[2], at % x.dims[3]};
  };
  std::fill_n(into, channels, 0.0f);
  with_element(x, [&](auto stored) {
    for (int64_t i = 0; i < few; i++) {
      const auto [b, h, w] = pixel(i);
      const auto* const from = pixel_of<decltype(stored)>(x, b, h, w);
#pragma omp simd
      for (int64_t ch = 0; ch < channels; ch++) into[ch] += float(from[ch]) / float(few);
    }
  });
}

/// Sums of deviations from near_means(), and of their squares, for each channel of x.
struct Deviations {
  static int64_t bytes(const View& x) { return channel_sums_bytes<2>(x) + x.dims[1] * int64_t(sizeof(float)); }
  Deviations(const View& x, void* scratch, const Outside* outside = nullptr)
      : sums(static_cast<double*>(scratch)),
        squares(sums + x.dims[1]),
        pivot(reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + channel_sums_bytes<2>(x))),
        pixels(double(ops::pixels(x))) {
    near_means(x, pivot);
    const Summands<1, 1> of{{&x, 1}, {}, {pivot}};
    channel_sums<float, 2>(
        of, sums,
        [](const auto& element, const auto& centre) {
          const auto deviation = element[0] - centre[0];
          return std::array{deviation, deviation * deviation};
        },
        outside);
  }
  double mean(int64_t c) const { return double(pivot[c]) + sums[c] / pixels; }
  /// The sum of squared deviations from the mean.
  double square(int64_t c) const { return std::max(0.0, squares[c] - sums[c] * sums[c] / pixels); }

  double *sums, *squares;
  float* pivot;
  double pixels;
};

/// The second element times the first one's deviation from a centre, and the second element.
inline constexpr auto centred_products = [](const auto& element, const auto& centre) {
  return std::array{(element[0] - centre[0]) * element[1], element[1]};
};

/// A bias's gradient: the sum of dy. `scratch` holds channel_sums_bytes<1>().
inline void bias_gradient(const View& dy, void* scratch, const View& db) {
  double* const sums = static_cast<double*>(scratch);
  const Summands<1, 0> of{{&dy, 1}, {}, {}};
  channel_sums<float, 1>(of, sums, [](const auto& element, const auto&) { return std::array{element[0]}; });
  std::copy_n(sums, dy.dims[1], floats(db));
}

}  // namespace spillway::cpu
