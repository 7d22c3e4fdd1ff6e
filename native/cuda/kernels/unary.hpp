// Activations without parameters and their gradients, from the table.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/unary.hpp"

namespace spillway::cuda {

// Types, not lambdas: nvcc takes none of both sides within a generic one.
template <class F>
struct ValueOf {
  F f;
  SPILLWAY_BOTH float operator()(const float* x, uint32_t) const { return f.value(x[0]); }
};
template <class F>
struct GradientOf {
  F f;
  SPILLWAY_BOTH float operator()(const float* x, uint32_t) const { return f.gradient(x[0], x[1]); }
};

template <class F>
struct Unary : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    ops::with_unary<F>(c.attrs, [&](auto f) { map<T, 1>(exec, c.outs[0], {&c.ins[0]}, ValueOf<decltype(f)>{f}); });
  }
};

template <class F>
struct UnaryBackward : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    ops::with_unary<F>(c.attrs, [&](auto f) { map<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]}, GradientOf<decltype(f)>{f}); });
  }
};

#define SPILLWAY_UNARY_KERNEL(kind)                         \
  template <>                                               \
  struct Kernel<OpKind::kind> : Unary<ops::unary::kind> {}; \
  template <>                                               \
  struct Kernel<OpKind::kind##_bwd> : UnaryBackward<ops::unary::kind> {};
SPILLWAY_UNARY(SPILLWAY_UNARY_KERNEL)
#undef SPILLWAY_UNARY_KERNEL

}  // namespace spillway::cuda
