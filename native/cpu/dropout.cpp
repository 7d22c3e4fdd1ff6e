// Dropout by counter: the mask is drawn for the element's place in the whole value, so tiles and recompute agree.
#include "ops/dropout.hpp"

#include "cpu/runs.hpp"
#include "runtime/philox.hpp"

namespace spillway::cpu {
namespace {

void masked_copy(const KernelCall& call, DropoutAttrs a) {
  const View &x = call.ins[0], &y = call.outs[0];
  const uint64_t stream = dropout_stream(call.step->step, uint32_t(a.key)), seed = call.step->seed;
  const uint32_t threshold = dropout_threshold(a.p);
  const float scale = float(1 / (1 - a.p));
  const int64_t channel_stride = y.extent[2] * y.extent[3];
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < y.dims[0]; b++)
    for (int64_t h = 0; h < y.dims[2]; h++)
      for (int64_t w = 0; w < y.dims[3]; w++) {
        const float* from = pixel_of(x, b, h, w);
        float* to = pixel_of(y, b, h, w);
        const int64_t first = (b + y.origin[0]) * y.extent[1] * channel_stride + y.origin[1] * channel_stride +
                              (h + y.origin[2]) * y.extent[3] + (w + y.origin[3]);
#pragma omp simd
        for (int64_t c = 0; c < y.dims[1]; c++)
          to[c] = dropout_keeps(seed, stream, uint64_t(first + c * channel_stride), threshold) ? from[c] * scale : 0.0f;
      }
}

struct Dropout : PlainKernel {
  static constexpr auto check = ops::check_dropout;
  static void run(const KernelCall& c) { masked_copy(c, DropoutAttrs::read(c.attrs)); }
};

struct DropoutBackward : PlainKernel {
  static constexpr auto check = ops::check_dropout_bwd;
  static void run(const KernelCall& c) { masked_copy(c, DropoutBwdAttrs::read(c.attrs)); }
};

}  // namespace

const KernelEntry dropout = entry<Dropout>();
const KernelEntry dropout_bwd = entry<DropoutBackward>();

}  // namespace spillway::cpu
