// Clipping of gradients; the factor is worked out by each item, from the sum that is there when it runs.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/clip.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::clip_values> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float limit = float(ClipValuesAttrs::read(c.attrs).limit);
    const float* const g = floats(c.ins[0]);
    float* const y = floats(c.outs[0]);
    exec.each(ops::elements(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) { y[i] = ops::clipped_value(g[i], limit); });
  }
};

template <>
struct Kernel<OpKind::square_sum> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(ops::elements(c.ins[0]), 1); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float* const g = floats(c.ins[0]);
    const float* const before = c.n_ins > 1 ? floats(c.ins[1]) : nullptr;
    float* const squares = floats(c.outs[0]);
    sum_terms<1>(
        exec, ops::elements(c.ins[0]), 1, c.workspace,
        [=] SPILLWAY_BOTH(uint32_t i, uint32_t, double* total) { total[0] += double(g[i]) * double(g[i]); },
        [=] SPILLWAY_BOTH(uint32_t, const double* sum) { squares[0] = float(sum[0] + (before ? double(before[0]) : 0)); });
  }
};

template <>
struct Kernel<OpKind::clip_norm> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const double most = ClipNormAttrs::read(c.attrs).most;
    const float* const g = floats(c.ins[0]);
    const float* const squares = floats(c.ins[1]);
    float* const y = floats(c.outs[0]);
    exec.each(ops::elements(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) { y[i] = g[i] * float(ops::clip_factor(double(squares[0]), most)); });
  }
};

}  // namespace spillway::cuda
