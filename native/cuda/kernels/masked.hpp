// Batch norm over the pixels of a mask: its statistics and totals; the rest are the kernels of batch norm. An item has a channel.
#pragma once
#include "cuda/kernels/batchnorm.hpp"
#include "ops/masked.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::masked_stats> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const double count = double(MaskedStatsAttrs::read(c.attrs).count);
    const ops::Statistics<float> all(c.ins[0]), mask(c.ins[1]), masked(c.outs[0]), running(c.outs[1]);
    exec.each(c.ins[0].dims[1],
              [=] SPILLWAY_BOTH(uint32_t ch) { ops::put_both_masked(all, ops::inside_of(mask, count), ch, masked, running); });
  }
};

template <>
struct Kernel<OpKind::masked_sums> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const double count = double(MaskedSumsAttrs::read(c.attrs).count);
    const ops::Statistics<float> mask(c.ins[2]);
    const float *const dgamma = floats(c.ins[0]), *const dbeta = floats(c.ins[1]);
    float *const gamma_total = floats(c.outs[0]), *const beta_total = floats(c.outs[1]);
    exec.each(c.ins[0].dims[0], [=] SPILLWAY_BOTH(uint32_t ch) {
      const double factor = ops::factor_of(ops::inside_of(mask, count));
      gamma_total[ch] = float(double(dgamma[ch]) * factor);
      beta_total[ch] = float(double(dbeta[ch]) * factor);
    });
  }
};

template <>
struct Kernel<OpKind::bn_masked_apply> : Kernel<OpKind::bn_apply> {};

}  // namespace spillway::cuda
