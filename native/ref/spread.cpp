// Each value of a parameter several times in a row, and the sums of their gradients.
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Spread {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> p(c.ins[0]), y(c.outs[0]);
    const int64_t times = SpreadAttrs::read(c.attrs).times;
    for (int64_t i = 0; i < c.outs[0].dims[0]; i++) y[i] = p[i / times];
  }
};

struct SpreadBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), dp(c.outs[0]);
    const int64_t times = SpreadBwdAttrs::read(c.attrs).times;
    for (int64_t i = 0; i < c.outs[0].dims[0]; i++) {
      double sum = 0;
      for (int64_t k = 0; k < times; k++) sum += double(dy[i * times + k]);
      dp[i] = T(sum);
    }
  }
};

}  // namespace

const KernelEntry spread = entry<Spread>();
const KernelEntry spread_bwd = entry<SpreadBackward>();

}  // namespace spillway::ref
