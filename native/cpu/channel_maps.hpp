// Element-wise maps whose coefficients belong to channels: y[c] from x[c], … and arrays of C floats in the scratch.
// In: views of one box (or parts of it side by side along C), a body(pointers to one pixel's channels). Out: nothing; the order
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

/// Calls body(pointers to a pixel's channels) for each pixel.
template <size_t N, class Body>
void each_pixel(const std::array<const View*, N>& views, Body body) {
  const View& v = *views[0];
  const int64_t rows = v.dims[0] * v.dims[2];
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t w = 0; w < v.dims[3]; w++) {
      Pointers<N> at;
      for (size_t i = 0; i < N; i++) at[i] = pixel_of(*views[i], row / v.dims[2], row % v.dims[2], w);
      body(at);
    }
}

/// Calls body(pointers, first channel, channels) for each pixel of each part: the part's channels, and the same of `whole`. A few
/// pixels of all parts at a time, so that those of `whole` stay near.
template <size_t N, class Body>
void each_part_pixel(const ops::Parts& parts, const std::array<const View*, N>& whole, Body body) {
  constexpr int64_t near = 8;
  const View& v = parts[0];
  const int64_t rows = v.dims[0] * v.dims[2];
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < v.dims[3]; column += near) {
      int64_t from = 0;
      for (uint32_t part = 0; part < parts.count; from += parts[part++].dims[1])
        for (int64_t w = column; w < std::min(v.dims[3], column + near); w++) {
          Pointers<N + 1> at{pixel_of(parts[part], row / v.dims[2], row % v.dims[2], w)};
          for (size_t i = 0; i < N; i++) at[i + 1] = pixel_of(*whole[i], row / v.dims[2], row % v.dims[2], w) + from;
          body(at, from, parts[part].dims[1]);
        }
    }
}

}  // namespace spillway::cpu
