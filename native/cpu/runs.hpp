// Walks views of equal dims together, in the longest runs of memory that are contiguous in all of them: the whole value, a row,
// or one pixel's channels. In: the views (the first is written), and a body(pointers, elements) on floats. The order of runs is
// free, so bodies must be element-wise.
#pragma once
#include "cpu/outside.hpp"

namespace spillway::cpu {

/// Returns true if the pixels of a row follow each other without gaps.
inline bool dense_rows(const View& v) { return v.dims[3] == 1 || v.strides[3] == v.dims[1]; }

/// Elements from the view's first to that of a pixel.
inline int64_t offset_of(const View& v, int64_t b, int64_t h, int64_t w) { return b * v.strides[0] + h * v.strides[2] + w * v.strides[3]; }

/// Pixels [from, to) of a row.
struct Columns {
  int64_t from, to;
};

/// Calls body(columns) for the stretches of a row that a kernel computes, each at most `most` pixels. The others are 0 then, in `written`.
template <class Body>
void each_inside(const Outside* outside, const View& written, int64_t row, int64_t most, const Body& body) {
  const int64_t pixels = written.dims[3];
  OutsideRow is_outside(outside, row);
  for (int64_t from = 0; from < pixels;) {
    int64_t to = outside ? from : std::min(pixels, from + most);
    while (to < std::min(pixels, from + most) && !is_outside(to)) to++;
    if (from < to) body(Columns{from, to});
    for (from = to; from < pixels && is_outside(from);) from++;
    if (to < from && outside->fills) {
      clear_pixels(written, row, to, from);
      end_stream();
    }
  }
}

/// Element-wise over any views of the same dims whose channels are innermost.
template <size_t N, class Body>
void each_row(const Views<N>& views, Body body, const Outside* outside = nullptr) {
  const View& v = *views[0];
  const bool whole_rows = std::all_of(views.begin(), views.end(), [](const View* o) { return dense_rows(*o); }), bf16 = any_bf16(views);
  const int64_t rows = v.dims[0] * v.dims[2], most = whole_rows ? v.dims[3] : 1;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    each_inside(outside, v, row, most, [&](Columns columns) {
      std::array<int64_t, N> from;
      for (size_t i = 0; i < N; i++) from[i] = offset_of(*views[i], row / v.dims[2], row % v.dims[2], columns.from);
      on_stretch<N>(views, bf16, from, (columns.to - columns.from) * v.dims[1],
                    [&body](const Pointers<N>& at, int64_t, int64_t n) { body(at, n); });
    });
}

/// Element-wise over values without gaps, in equal shares.
template <size_t N, class Body>
void each_chunk(const Views<N>& views, Body body) {
  constexpr int64_t chunk = 8192;
  const int64_t total = ops::elements(*views[0]);
  const bool bf16 = any_bf16(views);
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < total; first += chunk) {
    std::array<int64_t, N> from;
    from.fill(first);
    on_stretch<N>(views, bf16, from, std::min(chunk, total - first), [&body](const Pointers<N>& at, int64_t, int64_t n) { body(at, n); });
  }
}

/// `outside`: pixels that are left out, or null.
template <size_t N, class Body>
void each_run(const Views<N>& views, Body body, const Outside* outside = nullptr) {
  if (outside) return each_row(views, body, outside);
  const auto every = [&](bool (*dense)(const View&)) {
    return std::all_of(views.begin(), views.end(), [&](const View* v) { return dense(*v); });
  };
  if (every(ops::dense_channels_last) || every(ops::dense_plain))
    each_chunk(views, body);
  else
    each_row(views, body);
}

}  // namespace spillway::cpu
