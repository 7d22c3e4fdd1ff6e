// Products of matrices of two values, and their gradients. An item owns an element of a product.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/contract.hpp"

namespace spillway::cuda {

struct MatrixTriple {
  ops::Matrix left, right, out;
};

/// out(i, j) = Σ left(i, s)·right(s, j) for each part. Neighbouring items own neighbouring channels of a pixel, or neighbouring pixels.
template <class T, class Exec, class F>
void multiply_matrices(Exec& exec, const T* left, const T* right, T* out, int64_t parts, int64_t rows, int64_t inner, int64_t columns,
                       F of) {
  exec.each(parts * rows * columns, [=] SPILLWAY_BOTH(uint32_t item) {
    const int64_t part = item / (rows * columns), within = item % (rows * columns);
    const MatrixTriple m = of(part);
    const bool rows_are_close = m.out.row < m.out.column;
    const int64_t i = rows_are_close ? within % rows : within / columns, j = rows_are_close ? within / rows : within % columns;
    double sum = 0;
    for (int64_t s = 0; s < inner; s++) sum += double(float(left[m.left.at(i, s)]) * float(right[m.right.at(s, j)]));
    out[m.out.at(i, j)] = float(sum);
  });
}

template <>
struct Kernel<OpKind::contract> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::ContractPlan p(c);
    multiply_matrices<T>(exec, stored<T>(c.ins[0]), stored<T>(c.ins[1]), stored<T>(c.outs[0]), p.parts(), p.rows, p.inner, p.columns,
                         [p] SPILLWAY_BOTH(int64_t part) {
                           return MatrixTriple{p.left(part), p.right(part), p.product(part)};
                         });
  }
};

template <>
struct Kernel<OpKind::contract_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::ContractPlan p(c);
    const T *const a = stored<T>(c.ins[0]), *const b = stored<T>(c.ins[1]), *const dy = stored<T>(c.ins[2]);
    multiply_matrices<T>(exec, dy, b, stored<T>(c.outs[0]), p.parts(), p.rows, p.columns, p.inner, [p] SPILLWAY_BOTH(int64_t part) {
      return MatrixTriple{p.product(part), p.right(part).turned(), p.left(part)};
    });
    multiply_matrices<T>(exec, a, dy, stored<T>(c.outs[1]), p.parts(), p.inner, p.rows, p.columns, [p] SPILLWAY_BOTH(int64_t part) {
      return MatrixTriple{p.left(part).turned(), p.product(part), p.right(part)};
    });
  }
};

}  // namespace spillway::cuda
