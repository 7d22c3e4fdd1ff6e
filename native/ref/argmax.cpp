// Which channel of each pixel is largest.
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Argmax {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]);
    const Tensor<int32_t> y(c.outs[0]);
    const int64_t channels = c.ins[0].dims[1];
    each_pixel(c.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      int64_t best = 0;
      for (int64_t i = 1; i < channels; i++)
        if (x.global(b, i, h, w) > x.global(b, best, h, w)) best = i;
      y.global(b, 0, h, w) = int32_t(channels > 1 ? best : x.global(b, 0, h, w) > 0);
    });
  }
};

}  // namespace

const KernelEntry argmax = entry<Argmax>();

}  // namespace spillway::ref
