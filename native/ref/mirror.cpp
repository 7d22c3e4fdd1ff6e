// A table of distances from one of absolute distances, and its gradient.
#include "ops/mirror.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Mirror {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::MirrorPlan plan = ops::mirror_plan(c, c.ins[0]);
    const T* const p = static_cast<T*>(c.ins[0].data);
    T* const y = static_cast<T*>(c.outs[0].data);
    for (int64_t i = 0; i < plan.rows(); i++)
      for (int64_t n = 0; n < plan.count; n++) y[i * plan.count + n] = p[n * plan.size() + plan.source(i)];
  }
};

struct MirrorBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::MirrorPlan plan = ops::mirror_plan(c, c.outs[0]);
    const T* const dy = static_cast<T*>(c.ins[0].data);
    T* const dp = static_cast<T*>(c.outs[0].data);
    const int64_t size = plan.size();
    for (int64_t i = 0; i < plan.count * size; i++) {
      double sum = 0;
      plan.each_sign(i % size, [&](int64_t row) { sum += double(dy[row * plan.count + i / size]); });
      dp[i] = T(sum);
    }
  }
};

}  // namespace

const KernelEntry mirror = entry<Mirror>();
const KernelEntry mirror_bwd = entry<MirrorBackward>();

}  // namespace spillway::ref
