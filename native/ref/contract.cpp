// Products of matrices of two values, and their gradients.
#include "ops/contract.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// out(i, j) = Σ left(i, s)·right(s, j).
template <class T>
void multiply(const T* left, ops::Matrix l, const T* right, ops::Matrix r, T* out, ops::Matrix o, int64_t rows, int64_t inner,
              int64_t columns) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      double sum = 0;
      for (int64_t s = 0; s < inner; s++) sum += double(left[l.at(i, s)]) * double(right[r.at(s, j)]);
      out[o.at(i, j)] = T(sum);
    }
}

template <class T>
T* elements_of(const View& v) {
  return static_cast<T*>(v.data);
}

struct Contract {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::ContractPlan p(c);
    const T *const a = elements_of<T>(c.ins[0]), *const b = elements_of<T>(c.ins[1]);
    T* const y = elements_of<T>(c.outs[0]);
    for (int64_t part = 0; part < p.parts(); part++)
      multiply<T>(a, p.left(part), b, p.right(part), y, p.product(part), p.rows, p.inner, p.columns);
  }
};

struct ContractBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::ContractPlan p(c);
    const T *const a = elements_of<T>(c.ins[0]), *const b = elements_of<T>(c.ins[1]), *const dy = elements_of<T>(c.ins[2]);
    T *const da = elements_of<T>(c.outs[0]), *const db = elements_of<T>(c.outs[1]);
    for (int64_t part = 0; part < p.parts(); part++) {
      const ops::Matrix l = p.left(part), r = p.right(part), y = p.product(part);
      multiply<T>(dy, y, b, r.turned(), da, l, p.rows, p.columns, p.inner);
      multiply<T>(a, l.turned(), dy, y, db, r, p.inner, p.rows, p.columns);
    }
  }
};

}  // namespace

const KernelEntry contract = entry<Contract>();
const KernelEntry contract_bwd = entry<ContractBackward>();

}  // namespace spillway::ref
