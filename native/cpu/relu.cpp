// Rectifiers, plain (slope 0) and leaky; in place or not. A NaN passes through, as in PyTorch.
#include "ops/relu.hpp"

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

struct Relu : PlainKernel {
  static constexpr auto check = ops::check_relu;
  static void run(const KernelCall& c) {
    const float slope = float(ReluAttrs::read(c.attrs).slope);
    each_run<2>({&c.outs[0], &c.ins[0]}, [slope](Pointers<2> at, int64_t n) {
      const auto [y, x] = at;
      const float below = slope;  // a copy that no store can change, or the loop would not be vectorised
      if (slope == 0)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0.0f : x[i];
      else
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * (x[i] <= 0 ? below : 1.0f);
    });
  }
};

struct ReluBackward : PlainKernel {
  static constexpr auto check = ops::check_relu_bwd;
  static void run(const KernelCall& c) {
    const float slope = float(ReluBwdAttrs::read(c.attrs).slope);
    each_run<3>({&c.outs[0], &c.ins[0], &c.ins[1]}, [slope](Pointers<3> at, int64_t n) {
      const auto [dx, y, dy] = at;
      const float below = slope;
      if (slope == 0)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = y[i] <= 0 ? 0.0f : dy[i];
      else
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * (y[i] <= 0 ? below : 1.0f);
    });
  }
};

}  // namespace

const KernelEntry relu = entry<Relu>();
const KernelEntry relu_bwd = entry<ReluBackward>();

}  // namespace spillway::cpu
