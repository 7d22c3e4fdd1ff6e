// Element-wise maps whose coefficients belong to channels: y[c] from x[c], … and arrays of C floats in the scratch.
// In: views of one box (or parts of it side by side along C), a map of one pixel's elements, or a body on some of its channels. Out:
// nothing; the order of pixels is free.
#pragma once
#include "cpu/blocks.hpp"
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

/// A kernel whose scratch is a number of coefficient arrays.
template <int Arrays>
struct Affine : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return Arrays * c.ins[0].dims[1] * int64_t(sizeof(float)); }
};

/// Calls body(pointers, first, count) for each pixel: to `count` of its channels from channel `first` on.
template <size_t N, class Body>
void each_pixel(const Views<N>& views, Body body) {
  const View& v = *views[0];
  const int64_t rows = v.dims[0] * v.dims[2];
  const bool bf16 = any_bf16(views);
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t w = 0; w < v.dims[3]; w++) {
      std::array<int64_t, N> from;
      for (size_t i = 0; i < N; i++) from[i] = offset_of(*views[i], row / v.dims[2], row % v.dims[2], w);
      on_stretch<N>(views, bf16, from, v.dims[1], body);
    }
}

/// Calls body(V, channel) for channels [from, to), as many at a time as a register holds.
template <class Body>
void each_block(int64_t from, int64_t to, const Body& body) {
  int64_t ch = from;
  for (; ch + block_width <= to; ch += block_width) body(Block{}, ch);
  for (; ch < to; ch++) body(0.0f, ch);
}

/// The read elements of one pixel from one channel on: an element of a part, and those of `whole` beside
/// it.
template <class T, size_t N>
struct Pixel {
  std::array<const T*, N> from;
  T* to;
};

/// Maps the channels of a pixel; the coefficients begin with the pixel's first channel.
template <class T, size_t N, size_t K, class Map>
void map_pixel(const Pixel<T, N>& pixel, const std::array<const float*, K>& coefficients, int64_t channels, const Map& map) {
  each_block(0, channels, [&]<class V>(V, int64_t ch) {
    std::array<V, N> elements;
    for (size_t i = 0; i < N; i++) elements[i] = load_as<V>(pixel.from[i] + ch);
    std::array<V, K> constants;
    for (size_t i = 0; i < K; i++) constants[i] = load_as<V>(coefficients[i] + ch);
    store_as(pixel.to + ch, map(elements, constants));
  });
}

/// The rows of map_channels in one stored type. In a function of its own: clang 16 refuses such a lambda in a loop inside a generic one.
template <class T, size_t N, size_t K, class Map>
void map_rows(const ops::Parts& parts, const std::array<const View*, N>& whole, const std::array<const float*, K>& coefficients,
              const View& y, const Map& map, const Outside* outside) {
  constexpr int64_t near = 8;
  const int64_t rows = y.dims[0] * y.dims[2];
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    each_inside(outside, y, row, near, [&](Columns columns) {
      int64_t from = 0;
      for (uint32_t part = 0; part < parts.count; from += parts[part++].dims[1]) {
        Views<N + 1> views{&parts[part]};
        std::copy(whole.begin(), whole.end(), views.begin() + 1);
        std::array<const float*, K> constants = coefficients;
        for (const float*& at : constants) at += from;
        const auto pixel_in = [&](const View& v, int64_t w) { return pixel_of<T>(v, row / y.dims[2], row % y.dims[2], w); };
        for (int64_t w = columns.from; w < columns.to; w++) {
          Pixel<T, N + 1> pixel{{}, pixel_in(y, w) + from};
          for (size_t i = 0; i <= N; i++) pixel.from[i] = pixel_in(*views[i], w) + (i ? from : 0);
          map_pixel(pixel, constants, parts[part].dims[1], map);
        }
      }
    });
}

/// y = map(elements, coefficients) for every channel of every pixel. `elements` are those of `parts`, side by side along C, and those of
/// `whole`. Map takes floats or blocks of them. The loop handles a few pixels of all parts at a time, so that those of `whole` stay in
/// cache. `y` may be any of the read views. `outside`: pixels that are left out, or null.
template <size_t N, size_t K, class Map>
void map_channels(const ops::Parts& parts, const std::array<const View*, N>& whole, const std::array<const float*, K>& coefficients,
                  const View& y, const Map& map, const Outside* outside = nullptr) {
  with_element(y, [&](auto element) { map_rows<decltype(element)>(parts, whole, coefficients, y, map, outside); });
}

}  // namespace spillway::cpu
