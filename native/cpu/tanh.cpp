// The hyperbolic tangent and its gradient, which reads y; in place or not.
#include <cmath>

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

struct Tanh : PlainKernel {
  static constexpr auto check = ops::check_same_boxes;
  static void run(const KernelCall& c) {
    each_run<2>({&c.outs[0], &c.ins[0]}, [](Pointers<2> at, int64_t n) {
      const auto [y, x] = at;
      for (int64_t i = 0; i < n; i++) y[i] = std::tanh(x[i]);
    });
  }
};

struct TanhBackward : PlainKernel {
  static constexpr auto check = ops::check_same_boxes;
  static void run(const KernelCall& c) {
    each_run<3>({&c.outs[0], &c.ins[0], &c.ins[1]}, [](Pointers<3> at, int64_t n) {
      const auto [dx, y, dy] = at;
#pragma omp simd
      for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
    });
  }
};

}  // namespace

const KernelEntry tanh = entry<Tanh>();
const KernelEntry tanh_bwd = entry<TanhBackward>();

}  // namespace spillway::cpu
