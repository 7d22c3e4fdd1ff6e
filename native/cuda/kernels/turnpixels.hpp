// Channels and pixels exchanged, and back. Items go along the written side.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/turnpixels.hpp"

namespace spillway::cuda {

/// y[column][row] = x[row][column] for each image.
template <class T, class Exec>
void turn_matrices(Exec& exec, const View& x_view, const View& y_view, int64_t row_count, int64_t column_count) {
  const T* const x = stored<T>(x_view);
  T* const y = stored<T>(y_view);
  const uint32_t rows = uint32_t(row_count), columns = uint32_t(column_count), size = rows * columns;
  exec.each(ops::elements(y_view), [=] SPILLWAY_BOTH(uint32_t i) {
    const uint32_t within = i % size;
    y[i] = x[i - within + within % rows * columns + within / rows];
  });
}

template <>
struct Kernel<OpKind::turn_pixels> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& x = c.ins[0];
    turn_matrices<T>(exec, x, c.outs[0], x.dims[2] * x.dims[3], x.dims[1]);
  }
};

template <>
struct Kernel<OpKind::turn_pixels_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& dx = c.outs[0];
    turn_matrices<T>(exec, c.ins[0], dx, dx.dims[1], dx.dims[2] * dx.dims[3]);
  }
};

}  // namespace spillway::cuda
