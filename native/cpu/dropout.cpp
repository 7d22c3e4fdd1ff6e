// Dropout by counter: the mask is drawn for the element's place in the whole value, so tiles and recompute agree.
#include "core/philox.hpp"
#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

template <class T>
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
        const T* from = pixel_of<T>(x, b, h, w);
        T* to = pixel_of<T>(y, b, h, w);
        const int64_t first = (b + y.origin[0]) * y.extent[1] * channel_stride + y.origin[1] * channel_stride +
                              (h + y.origin[2]) * y.extent[3] + (w + y.origin[3]);
        each_lane_group(y.dims[1], [&](int64_t lane, int64_t count) {
          float kept[lanes];
#pragma omp simd
          for (int64_t c = 0; c < count; c++)
            kept[c] = dropout_keeps(seed, stream, uint64_t(first + (lane + c) * channel_stride), threshold) ? float(from[lane + c]) * scale
                                                                                                            : 0.0f;
          store(kept, to + lane, count);
        });
      }
}

void drop(const KernelCall& call, DropoutAttrs a) {
  with_element(call.outs[0], [&](auto element) { masked_copy<decltype(element)>(call, a); });
}

struct Dropout : PlainKernel {
  static void run(const KernelCall& c) { drop(c, DropoutAttrs::read(c.attrs)); }
};

struct DropoutBackward : PlainKernel {
  static void run(const KernelCall& c) { drop(c, DropoutBwdAttrs::read(c.attrs)); }
};

}  // namespace

const KernelEntry dropout = entry<Dropout>();
const KernelEntry dropout_bwd = entry<DropoutBackward>();

}  // namespace spillway::cpu
