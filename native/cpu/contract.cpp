// Products of matrices of two values, and their gradients. A thread has the right side of a part and a block of rows of the left one as
// floats. Each sum runs in order, so the bits do not depend on the threads.
#include "ops/contract.hpp"

#include <omp.h>

#include "cpu/row_products.hpp"

namespace spillway::cpu {
namespace {

constexpr int64_t block_rows = 64;

/// out(i, j) = Σ left(i, s)·right(s, j) for `parts` matrices.
template <class T>
struct MatrixProduct {
  const T *left, *right;
  T* out;
  int64_t rows, inner, columns;

  /// `of(part)` returns the matrices of left, right and out.
  template <class F>
  void run(int64_t parts, float* scratch, int64_t own, F of) const {
    const int64_t blocks = (rows + block_rows - 1) / block_rows;
#pragma omp parallel
    {
      float* const b = scratch + omp_get_thread_num() * own;
      float *const a = b + inner * columns, *const y = a + std::min(rows, block_rows) * inner;
      int64_t held = -1;
#pragma omp for schedule(static) collapse(2)
      for (int64_t part = 0; part < parts; part++)
        for (int64_t block = 0; block < blocks; block++) {
          const auto [l, r, o] = of(part);
          if (held != part) gather(right, r, inner, columns, b);
          held = part;
          const int64_t first = block * block_rows, count = std::min(block_rows, rows - first);
          gather(left, {l.at(first, 0), l.row, l.column}, count, inner, a);
          multiply_rows(a, b, y, count, inner, columns);
          for (int64_t j = 0; j < columns; j++)
            for (int64_t i = 0; i < count; i++) out[o.at(first + i, j)] = T(y[i * columns + j]);
        }
    }
  }

 private:
  static void gather(const T* from, ops::Matrix m, int64_t count, int64_t width, float* to) {
    for (int64_t i = 0; i < count; i++)
      for (int64_t j = 0; j < width; j++) to[i * width + j] = float(from[m.at(i, j)]);
  }
};

/// Floats of a thread for one product.
int64_t own_floats(int64_t rows, int64_t inner, int64_t columns) {
  return inner * columns + std::min(rows, block_rows) * (inner + columns);
}

struct Contract : PlainKernel {
  static int64_t own(const ops::ContractPlan& p) { return own_floats(p.rows, p.inner, p.columns); }
  static int64_t workspace(const KernelCall& c) { return use_threads() * own(ops::ContractPlan(c)) * int64_t(sizeof(float)); }
  template <class T>
  static void run(const KernelCall& c) {
    const ops::ContractPlan p(c);
    const MatrixProduct<T> product{static_cast<const T*>(c.ins[0].data),
                                   static_cast<const T*>(c.ins[1].data),
                                   static_cast<T*>(c.outs[0].data),
                                   p.rows,
                                   p.inner,
                                   p.columns};
    product.run(p.parts(), static_cast<float*>(c.workspace), own(p),
                [&](int64_t part) { return std::tuple(p.left(part), p.right(part), p.product(part)); });
  }
};

struct ContractBackward : PlainKernel {
  static int64_t own(const ops::ContractPlan& p) {
    return std::max(own_floats(p.rows, p.columns, p.inner), own_floats(p.inner, p.rows, p.columns));
  }
  static int64_t workspace(const KernelCall& c) { return use_threads() * own(ops::ContractPlan(c)) * int64_t(sizeof(float)); }
  template <class T>
  static void run(const KernelCall& c) {
    const ops::ContractPlan p(c);
    const T *const a = static_cast<const T*>(c.ins[0].data), *const b = static_cast<const T*>(c.ins[1].data),
                   *const dy = static_cast<const T*>(c.ins[2].data);
    float* const scratch = static_cast<float*>(c.workspace);
    const MatrixProduct<T> of_left{dy, b, static_cast<T*>(c.outs[0].data), p.rows, p.columns, p.inner};
    of_left.run(p.parts(), scratch, own(p),
                [&](int64_t part) { return std::tuple(p.product(part), p.right(part).turned(), p.left(part)); });
    const MatrixProduct<T> of_right{a, dy, static_cast<T*>(c.outs[1].data), p.inner, p.rows, p.columns};
    of_right.run(p.parts(), scratch, own(p),
                 [&](int64_t part) { return std::tuple(p.left(part).turned(), p.product(part), p.right(part)); });
  }
};

}  // namespace

const KernelEntry contract = entry<Contract>();
const KernelEntry contract_bwd = entry<ContractBackward>();

}  // namespace spillway::cpu
