// Views as work items index them. In: activations with channels innermost. Out: pixel p's first channel, whatever the
// strides; element-wise maps in the longest steps that the operands allow: 16 bytes side by side, one element, or by place.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "cuda/kernels/exec.hpp"
#include "cuda/kernels/stored.hpp"
#include "ops/check.hpp"

namespace spillway::cuda {

/// Pixels of a box in B, H, W order. Without gaps the offset of a pixel is one product.
template <class T>
struct PixelsOf {
  T* data;
  uint32_t channels, height, width;
  int64_t stride_b, stride_h, stride_w;
  bool flat;

  PixelsOf() = default;
  explicit PixelsOf(const View& v)
      : data(static_cast<T*>(v.data)), channels(uint32_t(v.dims[1])), height(uint32_t(v.dims[2])), width(uint32_t(v.dims[3])),
        stride_b(v.strides[0]), stride_h(v.strides[2]), stride_w(v.strides[3]), flat(ops::dense_channels_last(v)) {}

  SPILLWAY_BOTH int64_t offset(uint32_t pixel) const {
    if (flat) return int64_t(pixel) * channels;
    const uint32_t w = pixel % width, row = pixel / width;
    return row / height * stride_b + row % height * stride_h + w * stride_w;
  }
  SPILLWAY_BOTH T* at(uint32_t pixel) const { return data + offset(pixel); }
  SPILLWAY_BOTH T* at(int64_t b, int64_t h, int64_t w) const { return data + b * stride_b + h * stride_h + w * stride_w; }
};
using Pixels = PixelsOf<float>;

/// A place in a box of `dims`, from its number in B, H, W, C order.
struct Place {
  uint32_t b, c, h, w;
  SPILLWAY_BOTH static Place of(uint32_t i, uint32_t channels, uint32_t height, uint32_t width) {
    const uint32_t pixel = i / channels, row = pixel / width;
    return {row / height, i % channels, row % height, pixel % width};
  }
};

/// What one access moves.
template <class T>
struct alignas(16) Wide {
  static constexpr int LANES = 16 / sizeof(T);
  T v[LANES];
};

template <class T, int N>
struct Arrays { const T* at[N]; };

inline bool aligned_for_wide(const View& v) { return reinterpret_cast<uintptr_t>(v.data) % 16 == 0; }

template <class T, int N, class Exec, class Op>
void map_wide(Exec& exec, T* out, Arrays<T, N> in, uint32_t channels, int64_t count, Op op) {
  constexpr int LANES = Wide<T>::LANES;
  exec.each(count / LANES, [=] SPILLWAY_BOTH(uint32_t i) {
    Wide<T> x[N], result;
    for (int k = 0; k < N; k++) x[k] = reinterpret_cast<const Wide<T>*>(in.at[k])[i];
    const uint32_t channel = uint32_t(int64_t(i) * LANES % channels);
    for (int lane = 0; lane < LANES; lane++) {
      float values[N];
      for (int k = 0; k < N; k++) values[k] = x[k].v[lane];
      result.v[lane] = op(values, channel + uint32_t(lane));
    }
    reinterpret_cast<Wide<T>*>(out)[i] = result;
  });
}

template <class T, int N>
struct PixelArrays { PixelsOf<T> of[N]; };

template <class T, int N, class Exec, class Op>
void map_pixels(Exec& exec, const View& y_view, const View* const (&xs)[N], Op op) {
  const PixelsOf<T> y(y_view);
  PixelArrays<T, N> in;
  for (int k = 0; k < N; k++) in.of[k] = PixelsOf<T>(*xs[k]);
  exec.each(ops::elements(y_view), [=] SPILLWAY_BOTH(uint32_t i) {
    const uint32_t pixel = i / y.channels, c = i % y.channels;
    float x[N];
    for (int k = 0; k < N; k++) x[k] = in.of[k].at(pixel)[c];
    y.at(pixel)[c] = op(x, c);
  });
}

/// y = op(values of the N inputs at this place, channel), over boxes of equal dims. y may be one of the inputs.
template <class T, int N, class Exec, class Op>
void map(Exec& exec, const View& y, const View* const (&xs)[N], Op op) {
  bool flat = ops::dense_channels_last(y), wide = y.dims[1] % Wide<T>::LANES == 0 && aligned_for_wide(y);
  Arrays<T, N> in;
  for (int k = 0; k < N; k++) {
    flat = flat && ops::dense_channels_last(*xs[k]);
    wide = wide && aligned_for_wide(*xs[k]);
    in.at[k] = static_cast<const T*>(xs[k]->data);
  }
  T* const out = static_cast<T*>(y.data);
  const uint32_t channels = uint32_t(y.dims[1]);
  const int64_t count = ops::elements(y);
  if (flat && wide) return map_wide(exec, out, in, channels, count, op);
  if (flat) {
    exec.each(count, [=] SPILLWAY_BOTH(uint32_t i) {
      float x[N];
      for (int k = 0; k < N; k++) x[k] = in.at[k][i];
      out[i] = op(x, i % channels);
    });
    return;
  }
  map_pixels<T, N>(exec, y, xs, op);
}

/// The part of `whole` where `part` lies, as a view with the dims of `part`.
template <class T>
View window_onto(const View& whole, const View& part) {
  View v = whole;
  T* data = static_cast<T*>(whole.data);
  for (int d = 0; d < 4; d++) {
    data += (part.origin[d] - whole.origin[d]) * whole.strides[d];
    v.dims[d] = part.dims[d];
    v.origin[d] = part.origin[d];
  }
  v.data = data;
  return v;
}

}  // namespace spillway::cuda
