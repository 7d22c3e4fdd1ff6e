// Rotary positions.
#include "ops/rotate.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Rotate {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), y(call.outs[0]);
    const ops::RotatePlan plan(call);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      const double angle = plan.angle(c % plan.a.head / 2, h, w);
      const double own = double(x.global(b, c, h, w)), other = double(x.global(b, c ^ 1, h, w));
      y.global(b, c, h, w) = T(ops::RotatePlan::rotated(c, own, other, std::cos(angle), std::sin(angle)));
    });
  }
};

}  // namespace

const KernelEntry rotate = entry<Rotate>();

}  // namespace spillway::ref
