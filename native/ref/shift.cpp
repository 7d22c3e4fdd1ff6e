// A trained value added to each channel or element, and its gradient.
#include "ops/shift.hpp"

#include <algorithm>
#include <vector>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Shift {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), p(call.ins[1]), y(call.outs[0]);
    const ops::ShiftPlan plan(call, call.ins[0]);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      y.global(b, c, h, w) = T(double(x.global(b, c, h, w)) + double(p[plan.at(c, h, w)]));
    });
  }
};

struct ShiftBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> dy(call.ins[0]), dp(call.outs[0]);
    const ops::ShiftPlan plan(call, call.ins[0]);
    std::vector<double> sums(size_t(ops::elements(call.outs[0])));
    each_element(call.ins[0],
                 [&](int64_t b, int64_t c, int64_t h, int64_t w) { sums[size_t(plan.at(c, h, w))] += double(dy.global(b, c, h, w)); });
    for (size_t i = 0; i < sums.size(); i++) dp[int64_t(i)] = T(sums[i]);
  }
};

}  // namespace

const KernelEntry shift = entry<Shift>();
const KernelEntry shift_bwd = entry<ShiftBackward>();

}  // namespace spillway::ref
