// The leaky rectifier with trained slopes, and its gradients.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/prelu.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::prelu> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float* const slope = floats(c.ins[1]);
    const uint32_t step = uint32_t(ops::slope_step(c));
    map<T, 1>(exec, c.outs[0], {&c.ins[0]},
              [=] SPILLWAY_BOTH(const float* v, uint32_t channel) { return v[0] <= 0 ? slope[channel * step] * v[0] : v[0]; });
  }
};

template <>
struct Kernel<OpKind::prelu_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const float* const slope = floats(c.ins[2]);
    const uint32_t step = uint32_t(ops::slope_step(c));
    map<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]},
              [=] SPILLWAY_BOTH(const float* v, uint32_t channel) { return v[0] <= 0 ? slope[channel * step] * v[1] : v[1]; });
  }
};

/// The sums of channels, then their sum if they share a slope.
template <>
struct Kernel<OpKind::prelu_bwd_weights> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dy(c.ins[1]);
    float* const dslope = floats(c.outs[0]);
    const int64_t channels = c.ins[0].dims[1];
    const double* const sums =
        sums_of<1>(exec, ops::pixels(c.ins[0]), channels, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch, double* sum) {
          const double value = double(x.at(pixel)[ch]);
          if (value <= 0) sum[0] += value * double(dy.at(pixel)[ch]);
        });
    if (ops::slope_step(c)) {
      exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) { dslope[ch] = float(sums[ch]); });
    } else {
      exec.each(1, [=] SPILLWAY_BOTH(uint32_t) {
        double total = 0;
        for (int64_t ch = 0; ch < channels; ch++) total += sums[ch];
        *dslope = float(total);
      });
    }
  }
};

}  // namespace spillway::cuda
