// How activations lie in memory: floats or bf16. In: views, stretches of their elements. Out: a body's work on floats. A stretch of
// bf16 is cast to floats in the nearest cache, worked on and rounded back, block by block: kernels that are bound by memory
// take half the time of floats, and none of them knows of it.
#pragma once
#include <algorithm>
#include <array>

#include "core/half.hpp"
#include "cpu/blocks.hpp"
#include "cpu/kernels.hpp"

namespace spillway::cpu {

template <size_t N>
using Pointers = std::array<float*, N>;
template <size_t N>
using Views = std::array<const View*, N>;

inline bool is_bf16(const View& v) { return v.dtype == DType::bf16; }

/// Calls f(element) with a value of the type that a view's elements are stored in.
template <class F>
void with_element(const View& v, F f) {
  is_bf16(v) ? f(Bf16(0.0f)) : f(0.0f);
}

/// The first element of a pixel by its place in the view.
template <class T = float>
T* pixel_of(const View& v, int64_t b, int64_t h, int64_t w) {
  return static_cast<T*>(v.data) + b * v.strides[0] + h * v.strides[2] + w * v.strides[3];
}

/// One image of a view.
inline View image_of(const View& v, int64_t image) {
  View one = v;
  one.data = static_cast<std::byte*>(v.data) + image * v.strides[0] * int64_t(dtype_bytes(v.dtype));
  one.dims[0] = 1;
  one.origin[0] += image;
  return one;
}

inline void to_floats(const Bf16* from, float* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) to[i] = float(from[i]);
}
inline void store(const float* from, Bf16* to, int64_t n) {
  int64_t i = 0;
  for (; i + block_width <= n; i += block_width) store_block(to + i, load_block(from + i));
  for (; i < n; i++) to[i] = Bf16(from[i]);
}
inline void store(const float* from, float* to, int64_t n) { std::copy_n(from, n, to); }

constexpr int64_t lanes = 64;  // channels of a pixel that a kernel works on at a time, as floats

/// Calls f(first, count) for the channels, `lanes` at a time.
template <class F>
void each_lane_group(int64_t channels, F f) {
  for (int64_t first = 0; first < channels; first += lanes) f(first, std::min(lanes, channels - first));
}

/// Calls body(pointers, first, count) on floats for n elements from these offsets on. One operand is written; all are read.
template <size_t N, size_t written, class Body>
void on_floats(const Views<N>& views, const std::array<int64_t, N>& offsets, int64_t n, Body body) {
  constexpr int64_t block = 1024;
  alignas(64) float as_floats[N][block];
  for (int64_t first = 0; first < n; first += block) {
    const int64_t count = std::min(block, n - first);
    Pointers<N> at;
    for (size_t i = 0; i < N; i++) {
      at[i] = is_bf16(*views[i]) ? as_floats[i] : floats(*views[i]) + offsets[i] + first;
      if (is_bf16(*views[i])) to_floats(static_cast<const Bf16*>(views[i]->data) + offsets[i] + first, as_floats[i], count);
    }
    body(at, first, count);
    if (is_bf16(*views[written])) store(as_floats[written], static_cast<Bf16*>(views[written]->data) + offsets[written] + first, count);
  }
}

/// The same, in one piece where no operand is bf16.
template <size_t N, size_t written = 0, class Body>
void on_stretch(const Views<N>& views, bool bf16, const std::array<int64_t, N>& offsets, int64_t n, Body body) {
  if (bf16) return on_floats<N, written>(views, offsets, n, body);
  Pointers<N> at;
  for (size_t i = 0; i < N; i++) at[i] = floats(*views[i]) + offsets[i];
  body(at, int64_t(0), n);
}

template <size_t N>
bool any_bf16(const Views<N>& views) {
  return std::any_of(views.begin(), views.end(), [](const View* v) { return is_bf16(*v); });
}

}  // namespace spillway::cpu
