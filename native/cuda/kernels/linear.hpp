// The fully connected layer, element by element, for the host in tests; the GPU has cuBLAS. Also the gradient of a bias,
// which neither library has: Σ dy over the pixels.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/linear.hpp"

namespace spillway::cuda {

inline int64_t bias_gradient_bytes(const View& dy) { return sums_bytes<1>(ops::pixels(dy), dy.dims[1]); }

template <class T>
struct SumTerm {
  using Part = float;
  PixelsOf<T> x;
  SPILLWAY_BOTH Nothing at(uint32_t) const { return {}; }
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void add(const Of&, Nothing, uint32_t pixel, uint32_t ch, float (&sum)[LANES][1]) const {
    float values[LANES];
    fetch<LANES>(x.at(pixel) + ch, values);
    for (int lane = 0; lane < LANES; lane++) sum[lane][0] += values[lane];
  }
};

template <class T, class Exec>
void bias_gradient(Exec& exec, const View& dy_view, const View& db_view, void* scratch) {
  float* const db = floats(db_view);
  sum_pixels<1, T>(exec, dy_view, has_wide_pixels<T>(dy_view), scratch, SumTerm<T>{PixelsOf<T>(dy_view)},
                   [=] SPILLWAY_BOTH(uint32_t c, const double* sum) { db[c] = float(sum[0]); });
}

/// y[r, c] = Σ_k left[r·rs + k·rk] · right[c·cs + k·ck] (+ bias[c]), rows of y `columns` long.
template <class L, class R, class Y>
struct Product {
  const L* left;
  const R* right;
  const float* bias;
  Y* y;
  int64_t rows, columns, inner, row_step, row_inner, column_step, column_inner;
};

template <class T, class L, class R, class Y, class Exec>
void multiply(Exec& exec, Product<L, R, Y> p) {
  exec.each(p.rows * p.columns, [=] SPILLWAY_BOTH(uint32_t i) {
    const int64_t r = i / p.columns, c = i % p.columns;
    double sum = p.bias ? double(p.bias[c]) : 0.0;
    for (int64_t k = 0; k < p.inner; k++)
      sum += double(as_stored<T>(p.left[r * p.row_step + k * p.row_inner])) *
             double(as_stored<T>(p.right[c * p.column_step + k * p.column_inner]));
    p.y[i] = float(sum);
  });
}

template <>
struct Kernel<OpKind::linear> : LibraryKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const int64_t in = c.ins[1].dims[1], out = c.ins[1].dims[0];
    multiply<T, T, float, T>(exec, {stored<T>(c.ins[0]), floats(c.ins[1]), c.n_ins > 2 ? floats(c.ins[2]) : nullptr, stored<T>(c.outs[0]),
                                    ops::pixels(c.outs[0]), out, in, in, 1, in, 1});
  }
};

template <>
struct Kernel<OpKind::linear_bwd_data> : LibraryKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const int64_t in = c.ins[1].dims[1], out = c.ins[1].dims[0];
    multiply<T, T, float, T>(
        exec, {stored<T>(c.ins[0]), floats(c.ins[1]), nullptr, stored<T>(c.outs[0]), ops::pixels(c.outs[0]), in, out, out, 1, 1, in});
  }
};

template <>
struct Kernel<OpKind::linear_bwd_weights> : LibraryKernel {
  static int64_t workspace(const KernelCall& c) { return c.n_outs > 1 ? bias_gradient_bytes(c.ins[1]) : 0; }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const int64_t in = c.outs[0].dims[1], out = c.outs[0].dims[0];
    multiply<T, T, T, float>(
        exec, {stored<T>(c.ins[1]), stored<T>(c.ins[0]), nullptr, floats(c.outs[0]), out, in, ops::pixels(c.ins[0]), 1, out, 1, in});
    if (c.n_outs > 1) bias_gradient<T>(exec, c.ins[1], c.outs[1], c.workspace);
  }
};

}  // namespace spillway::cuda
