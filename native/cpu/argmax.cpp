// Which channel of each pixel is largest.
#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

struct Argmax : PlainKernel {
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const int64_t channels = x.dims[1];
    int32_t* const classes = static_cast<int32_t*>(y.data);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < y.dims[0]; b++)
      for (int64_t h = 0; h < y.dims[2]; h++)
        for (int64_t w = 0; w < y.dims[3]; w++) {
          const float* const from = pixel_of(x, b, h, w);
          int64_t best = 0;
          for (int64_t i = 1; i < channels; i++) best = from[i] > from[best] ? i : best;
          classes[b * y.strides[0] + h * y.strides[2] + w * y.strides[3]] = int32_t(channels > 1 ? best : from[0] > 0);
        }
  }
};

}  // namespace

const KernelEntry argmax = entry<Argmax>();

}  // namespace spillway::cpu
