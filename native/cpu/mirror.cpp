// A table of distances from one of absolute distances, and its gradient.
#include "ops/mirror.hpp"

#include "cpu/kernels.hpp"

namespace spillway::cpu {
namespace {

struct Mirror : PlainKernel {
  static void run(const KernelCall& c) {
    const ops::MirrorPlan plan = ops::mirror_plan(c, c.ins[0]);
    const float* const p = floats(c.ins[0]);
    float* const y = floats(c.outs[0]);
    for (int64_t i = 0; i < plan.rows(); i++)
      for (int64_t n = 0; n < plan.count; n++) y[i * plan.count + n] = p[n * plan.size() + plan.source(i)];
  }
};

struct MirrorBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const ops::MirrorPlan plan = ops::mirror_plan(c, c.outs[0]);
    const float* const dy = floats(c.ins[0]);
    float* const dp = floats(c.outs[0]);
    const int64_t size = plan.size();
    for (int64_t i = 0; i < plan.count * size; i++) {
      double sum = 0;
      plan.each_sign(i % size, [&](int64_t row) { sum += double(dy[row * plan.count + i / size]); });
      dp[i] = float(sum);
    }
  }
};

}  // namespace

const KernelEntry mirror = entry<Mirror>();
const KernelEntry mirror_bwd = entry<MirrorBackward>();

}  // namespace spillway::cpu
