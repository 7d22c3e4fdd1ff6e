// Batch norm over the pixels of a mask: its statistics and totals; the rest are the kernels of batch norm.
#include "ops/masked.hpp"

#include "cpu/kernels.hpp"

namespace spillway::cpu {
namespace {

struct MaskedStats : PlainKernel {
  static void run(const KernelCall& c) {
    const ops::Inside n = ops::inside_of(ops::Statistics<float>(c.ins[1]), double(MaskedStatsAttrs::read(c.attrs).count));
    const ops::Statistics<float> all(c.ins[0]), masked(c.outs[0]), running(c.outs[1]);
    for (int64_t ch = 0; ch < c.ins[0].dims[1]; ch++) ops::put_both_masked(all, n, ch, masked, running);
  }
};

struct MaskedSums : PlainKernel {
  static void run(const KernelCall& c) {
    const double factor = ops::factor_of(ops::inside_of(ops::Statistics<float>(c.ins[2]), double(MaskedSumsAttrs::read(c.attrs).count)));
    for (int i = 0; i < 2; i++)
      for (int64_t ch = 0; ch < c.ins[i].dims[0]; ch++) floats(c.outs[i])[ch] = float(double(floats(c.ins[i])[ch]) * factor);
  }
};

}  // namespace

const KernelEntry masked_stats = entry<MaskedStats>();
const KernelEntry masked_sums = entry<MaskedSums>();

}  // namespace spillway::cpu
