// Element-wise maps whose coefficients belong to channels: y[c] from x[c], … and arrays of C floats in the scratch.
// In: views of one box (or parts of it side by side along C), a body on some of one pixel's channels. Out: nothing; the order
// of pixels is free.
#pragma once
#include "cpu/runs.hpp"
#include "ops/joinednorm.hpp"

namespace spillway::cpu {

/// Coefficient arrays of C floats each, in the call's workspace.
struct Coefficients {
  float* first;
  int64_t channels;
  float* operator[](int64_t i) const { return first + i * channels; }
};

inline Coefficients coefficients(const KernelCall& c) { return {static_cast<float*>(c.workspace), c.ins[0].dims[1]}; }

/// A kernel whose scratch is so many coefficient arrays.
template <int Arrays>
struct Affine : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return Arrays * c.ins[0].dims[1] * int64_t(sizeof(float)); }
};

/// Calls body(pointers, first, count) for each pixel: to `count` of its channels from channel `first` on.
template <size_t N, class Body>
void each_pixel(const Views<N>& views, Body body) {
  const View& v = *views[0];
  const int64_t rows = v.dims[0] * v.dims[2];
  const bool narrow = any_narrow(views);
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t w = 0; w < v.dims[3]; w++) {
      std::array<int64_t, N> from;
      for (size_t i = 0; i < N; i++) from[i] = offset_of(*views[i], row / v.dims[2], row % v.dims[2], w);
      on_stretch<N>(views, narrow, from, v.dims[1], body);
    }
}

/// Calls body(pointers, first channel, channels) for each pixel of each part: some of the part's channels, and the same of `whole`, whose first is written. A few
/// pixels of all parts at a time, so that those of `whole` stay near.
template <size_t N, class Body>
void each_part_pixel(const ops::Parts& parts, const std::array<const View*, N>& whole, Body body) {
  constexpr int64_t near = 8;
  const View& v = parts[0];
  const bool narrow = is_narrow(v);
  const int64_t rows = v.dims[0] * v.dims[2];
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < v.dims[3]; column += near) {
      int64_t from = 0;
      for (uint32_t part = 0; part < parts.count; from += parts[part++].dims[1])
        for (int64_t w = column; w < std::min(v.dims[3], column + near); w++) {
          Views<N + 1> views{&parts[part]};
          std::copy(whole.begin(), whole.end(), views.begin() + 1);
          std::array<int64_t, N + 1> at{offset_of(parts[part], row / v.dims[2], row % v.dims[2], w)};
          for (size_t i = 0; i < N; i++) at[i + 1] = offset_of(*whole[i], row / v.dims[2], row % v.dims[2], w) + from;
          on_stretch<N + 1, 1>(views, narrow, at, parts[part].dims[1],
                               [&](const Pointers<N + 1>& floats, int64_t first, int64_t n) { body(floats, from + first, n); });
        }
    }
}

}  // namespace spillway::cpu
