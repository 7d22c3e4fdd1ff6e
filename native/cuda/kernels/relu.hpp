// Rectifiers, plain (slope 0) and leaky. A NaN passes through, as in PyTorch.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/relu.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::relu> : OwnKernel {
  static constexpr auto check = ops::check_relu;
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float slope = float(ReluAttrs::read(c.attrs).slope);
    map<1>(exec, c.outs[0], {&c.ins[0]}, [=] SPILLWAY_BOTH(const float* x, uint32_t) { return x[0] <= 0 ? (slope == 0 ? 0.0f : slope * x[0]) : x[0]; });
  }
};

template <>
struct Kernel<OpKind::relu_bwd> : OwnKernel {
  static constexpr auto check = ops::check_relu_bwd;
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float slope = float(ReluBwdAttrs::read(c.attrs).slope);
    map<2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]},
           [=] SPILLWAY_BOTH(const float* x, uint32_t) { return x[0] <= 0 ? (slope == 0 ? 0.0f : slope * x[1]) : x[1]; });
  }
};

}  // namespace spillway::cuda
