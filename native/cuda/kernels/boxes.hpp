// Views for the indexing of work items. In: activations with channels innermost. Out: pixel p's first channel for any
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
      : data(static_cast<T*>(v.data)),
        channels(uint32_t(v.dims[1])),
        height(uint32_t(v.dims[2])),
        width(uint32_t(v.dims[3])),
        stride_b(v.strides[0]),
        stride_h(v.strides[2]),
        stride_w(v.strides[3]),
        flat(ops::dense_channels_last(v)) {}

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

/// The type of one access.
template <class T>
struct alignas(16) Wide {
  static constexpr int LANES = 16 / sizeof(T);
  T v[LANES];
};

template <class T, int N>
struct Arrays {
  const T* at[N];
};

inline bool aligned_for_wide(const View& v) { return reinterpret_cast<uintptr_t>(v.data) % 16 == 0; }

template <class T, int N, class Exec, class Op>
void map_wide(Exec& exec, T* out, Arrays<T, N> in, uint32_t channels, int64_t count, Op op) {
  constexpr int LANES = Wide<T>::LANES;
  const uint32_t groups = channels / uint32_t(LANES);
  exec.each(count / LANES, [=] SPILLWAY_BOTH(uint32_t i) {
    Wide<T> x[N], result;
    for (int k = 0; k < N; k++) x[k] = reinterpret_cast<const Wide<T>*>(in.at[k])[i];
    const uint32_t channel = i % groups * uint32_t(LANES);
    for (int lane = 0; lane < LANES; lane++) {
      float values[N];
      for (int k = 0; k < N; k++) values[k] = x[k].v[lane];
      result.v[lane] = op(values, channel + uint32_t(lane));
    }
    reinterpret_cast<Wide<T>*>(out)[i] = result;
  });
}

template <class T, int N>
struct PixelArrays {
  PixelsOf<T> of[N];
};

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

// ---------------------------------------------------------------- by channel

/// Returns true if each pixel's channels can be read 16 bytes at a time.
template <class T>
bool has_wide_pixels(const View& v) {
  constexpr int64_t LANES = Wide<T>::LANES;
  return aligned_for_wide(v) && v.dims[1] % LANES == 0 && v.strides[0] % LANES == 0 && v.strides[2] % LANES == 0 &&
         v.strides[3] % LANES == 0;
}

template <int LANES, class T>
SPILLWAY_BOTH void fetch(const T* at, float* values) {
  if constexpr (LANES == 1)
    values[0] = at[0];
  else {
    static_assert(LANES == Wide<T>::LANES);
    const Wide<T> wide = *reinterpret_cast<const Wide<T>*>(at);
    for (int lane = 0; lane < LANES; lane++) values[lane] = wide.v[lane];
  }
}

template <int LANES, class T>
SPILLWAY_BOTH void put(T* at, const float* values) {
  if constexpr (LANES == 1)
    at[0] = values[0];
  else {
    static_assert(LANES == Wide<T>::LANES);
    Wide<T> wide;
    for (int lane = 0; lane < LANES; lane++) wide.v[lane] = values[lane];
    *reinterpret_cast<Wide<T>*>(at) = wide;
  }
}

/// An item has LANES channels side by side, and every n-th pixel, so the values computed for the channels serve all of its
/// pixels. It calls body.start<LANES>(channel), then body.step<LANES>(start, pixel, channel) for each pixel.
template <int LANES, class Exec, class Body>
void each_by_channels(Exec& exec, int64_t pixels, int64_t channels, Body body) {
  constexpr int64_t ITEMS = 262144;  // keep a large GPU busy
  const uint32_t groups = uint32_t(channels / LANES), end = uint32_t(pixels);
  const uint32_t shares = uint32_t(pixels < ITEMS / groups ? pixels : groups < ITEMS ? ITEMS / groups : 1);
  exec.each(int64_t(groups) * shares, [=] SPILLWAY_BOTH(uint32_t i) {
    const uint32_t channel = i % groups * uint32_t(LANES);
    const auto start = body.template start<LANES>(channel);
    for (uint32_t pixel = i / groups; pixel < end; pixel += shares) body.template step<LANES>(start, pixel, channel);
  });
}

template <class At, int LANES>
struct AtChannels {
  At at[LANES];
};

/// f.at(channel) for channels side by side.
template <int LANES, class F>
SPILLWAY_BOTH auto at_channels(const F& f, uint32_t channel) {
  AtChannels<decltype(f.at(channel)), LANES> all;
  for (int lane = 0; lane < LANES; lane++) all.at[lane] = f.at(channel + uint32_t(lane));
  return all;
}

template <class T, int N, class F>
struct MapByChannel {
  PixelsOf<T> y;
  PixelArrays<T, N> in;
  F f;
  template <int LANES>
  SPILLWAY_BOTH auto start(uint32_t channel) const {
    return at_channels<LANES>(f, channel);
  }
  template <int LANES, class Start>
  SPILLWAY_BOTH void step(const Start& start, uint32_t pixel, uint32_t channel) const {
    float x[N][LANES], result[LANES];
    for (int k = 0; k < N; k++) fetch<LANES>(in.of[k].at(pixel) + channel, x[k]);
    for (int lane = 0; lane < LANES; lane++) {
      float values[N];
      for (int k = 0; k < N; k++) values[k] = x[k][lane];
      result[lane] = f.of(start.at[lane], values);
    }
    put<LANES>(y.at(pixel) + channel, result);
  }
};

/// y = f.of(f.at(channel), values of the N inputs at this place). y may be one of the inputs.
template <class T, int N, class Exec, class F>
void map_by_channel(Exec& exec, const View& y, const View* const (&xs)[N], F f) {
  MapByChannel<T, N, F> body{PixelsOf<T>(y), {}, f};
  bool wide = has_wide_pixels<T>(y);
  for (int k = 0; k < N; k++) {
    body.in.of[k] = PixelsOf<T>(*xs[k]);
    wide = wide && has_wide_pixels<T>(*xs[k]);
  }
  if (wide)
    each_by_channels<Wide<T>::LANES>(exec, ops::pixels(y), y.dims[1], body);
  else
    each_by_channels<1>(exec, ops::pixels(y), y.dims[1], body);
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
