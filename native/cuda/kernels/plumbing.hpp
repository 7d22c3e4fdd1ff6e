// The calls that tiling adds between operators: fill, copy, and merges of sums and of moments (Chan's) on any
// strides.
#pragma once
#include "cuda/kernels/add.hpp"
#include "ops/batchnorm.hpp"
#include "ops/plumbing.hpp"

namespace spillway::cuda {

/// A value of any strides: an activation against a parameter, say. Items go in the order of its memory where it is dense.
struct Strided {
  char* data;
  uint32_t dims[4];
  int64_t strides[4];
  explicit Strided(const View& v) : data(static_cast<char*>(v.data)) {
    for (int d = 0; d < 4; d++) {
      dims[d] = uint32_t(v.dims[d]);
      strides[d] = v.strides[d];
    }
  }
  SPILLWAY_BOTH int64_t offset(Place p) const { return p.b * strides[0] + p.c * strides[1] + p.h * strides[2] + p.w * strides[3]; }
};

/// f(pointer into y, pointer into x) for each element; both of one element type T.
template <class T, class Exec, class F>
void each_pair(Exec& exec, const View& y_view, const View& x_view, F f) {
  const bool plain = ops::dense_plain(y_view) && ops::dense_plain(x_view);
  const bool last = ops::dense_channels_last(y_view) && ops::dense_channels_last(x_view);
  const Strided y(y_view), x(x_view);
  const int64_t count = ops::elements(y_view);
  if (plain || last) {
    exec.each(count, [=] SPILLWAY_BOTH(uint32_t i) { f(reinterpret_cast<T*>(y.data) + i, reinterpret_cast<const T*>(x.data) + i); });
    return;
  }
  exec.each(count, [=] SPILLWAY_BOTH(uint32_t i) {
    const Place p = Place::of(i, y.dims[1], y.dims[2], y.dims[3]);
    f(reinterpret_cast<T*>(y.data) + y.offset(p), reinterpret_cast<const T*>(x.data) + x.offset(p));
  });
}

template <>
struct Kernel<OpKind::fill> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float value = float(FillAttrs::read(c.attrs).value);
    each_pair<T>(exec, c.outs[0], c.outs[0], [=] SPILLWAY_BOTH(T * y, const T*) { *y = value; });
  }
};

template <class Bits, class Exec>
void copy_bits(Exec& exec, const View& y, const View& x) {
  each_pair<Bits>(exec, y, x, [=] SPILLWAY_BOTH(Bits * into, const Bits* from) { *into = *from; });
}

template <>
struct Kernel<OpKind::copy> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {  // labels too
    if (dtype_bytes(c.outs[0].dtype) == sizeof(uint32_t))
      copy_bits<uint32_t>(exec, c.outs[0], c.ins[0]);
    else
      copy_bits<uint16_t>(exec, c.outs[0], c.ins[0]);
  }
};

template <>
struct Kernel<OpKind::merge_sum> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    each_pair<T>(exec, c.outs[0], c.ins[0], [=] SPILLWAY_BOTH(T * y, const T* x) { *y = float(*y) + float(*x); });
  }
};

/// y (ny elements so far; none: y becomes x) and x (nx elements). In one place, so that ranks have the bits of tiles.
template <class Exec>
void merge_moments_of(Exec& exec, const View& x_view, double nx, const View& y_view, double ny) {
  for (int64_t image = 0; image < ops::Statistics<float>::images(x_view); image++) {
    const ops::Statistics<float> x(x_view, image), y(y_view, image);
    exec.each(ops::Statistics<float>::count(x_view), [=] SPILLWAY_BOTH(uint32_t i) { ops::merge_statistic(x, nx, y, ny, int64_t(i)); });
  }
}

template <>
struct Kernel<OpKind::merge_moments> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = MergeMomentsAttrs::read(c.attrs);
    merge_moments_of(exec, c.ins[0], double(a.count_x), c.outs[0], double(a.count_y));
  }
};

}  // namespace spillway::cuda
