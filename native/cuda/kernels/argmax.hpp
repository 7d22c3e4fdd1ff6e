// Which channel of each pixel is largest. An item owns a pixel.
#pragma once
#include "cuda/kernels/loss.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::argmax> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]);
    const Labels y(c.outs[0]);
    int32_t* const classes = static_cast<int32_t*>(c.outs[0].data);
    exec.each(ops::pixels(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const float* const from = x.at(pixel);
      uint32_t best = 0;
      for (uint32_t ch = 1; ch < x.channels; ch++) best = from[ch] > from[best] ? ch : best;
      classes[y.place(pixel)] = int32_t(x.channels > 1 ? best : from[0] > 0);
    });
  }
};

}  // namespace spillway::cuda
