// The hyperbolic tangent and its gradient, which reads y.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::tanh> : OwnKernel {
  static constexpr auto check = ops::check_same_boxes;
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    map<T, 1>(exec, c.outs[0], {&c.ins[0]}, [=] SPILLWAY_BOTH(const float* x, uint32_t) { return tanhf(x[0]); });
  }
};

template <>
struct Kernel<OpKind::tanh_bwd> : OwnKernel {
  static constexpr auto check = ops::check_same_boxes;
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    map<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]}, [=] SPILLWAY_BOTH(const float* x, uint32_t) { return x[1] * (1 - x[0] * x[0]); });
  }
};

}  // namespace spillway::cuda
