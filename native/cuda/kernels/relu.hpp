// Rectifiers, plain (slope 0) and leaky. A NaN passes through, as in PyTorch.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/relu.hpp"

namespace spillway::cuda {

SPILLWAY_BOTH inline float rectify(float x, float slope) { return x <= 0 ? (slope == 0 ? 0.0f : slope * x) : x; }

template <>
struct Kernel<OpKind::relu> : OwnKernel {
  static constexpr auto check = ops::check_relu;
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float slope = float(ReluAttrs::read(c.attrs).slope);
    map<T, 1>(exec, c.outs[0], {&c.ins[0]}, [=] SPILLWAY_BOTH(const float* x, uint32_t) { return rectify(x[0], slope); });
  }
};

template <>
struct Kernel<OpKind::relu_bwd> : OwnKernel {
  static constexpr auto check = ops::check_relu_bwd;
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float slope = float(ReluBwdAttrs::read(c.attrs).slope);
    map<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]},
           [=] SPILLWAY_BOTH(const float* x, uint32_t) { return x[0] <= 0 ? (slope == 0 ? 0.0f : slope * x[1]) : x[1]; });
  }
};

}  // namespace spillway::cuda
