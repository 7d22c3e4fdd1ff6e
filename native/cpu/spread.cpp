// Each value of a parameter several times in a row, and the sums of their gradients.
#include <numeric>

#include "cpu/kernels.hpp"

namespace spillway::cpu {
namespace {

struct Spread : PlainKernel {
  static void run(const KernelCall& c) {
    const int64_t times = SpreadAttrs::read(c.attrs).times;
    for (int64_t i = 0; i < c.ins[0].dims[0]; i++) std::fill_n(floats(c.outs[0]) + i * times, times, floats(c.ins[0])[i]);
  }
};

struct SpreadBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const int64_t times = SpreadBwdAttrs::read(c.attrs).times;
    for (int64_t i = 0; i < c.outs[0].dims[0]; i++) {
      const float* const from = floats(c.ins[0]) + i * times;
      floats(c.outs[0])[i] = float(std::accumulate(from, from + times, 0.0));
    }
  }
};

}  // namespace

const KernelEntry spread = entry<Spread>();
const KernelEntry spread_bwd = entry<SpreadBackward>();

}  // namespace spillway::cpu
