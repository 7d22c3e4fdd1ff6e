// Softmax over the channels of a pixel, and its gradient, which reads y. An item owns a pixel.
#pragma once
#include "cuda/kernels/loss.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::softmax> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]), y(c.outs[0]);
    exec.each(ops::pixels(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const float* const from = x.at(pixel);
      float* const into = y.at(pixel);
      const Softmax s = Softmax::of(from, x.channels);
      for (uint32_t ch = 0; ch < x.channels; ch++) into[ch] = float(double(expf(from[ch] - s.top)) / s.total);
    });
  }
};

template <>
struct Kernel<OpKind::softmax_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels y(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    exec.each(ops::pixels(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const float *const value = y.at(pixel), *const gradient = dy.at(pixel);
      float* const into = dx.at(pixel);
      double sum = 0;
      for (uint32_t ch = 0; ch < y.channels; ch++) sum += double(gradient[ch]) * double(value[ch]);
      for (uint32_t ch = 0; ch < y.channels; ch++) into[ch] = float(double(value[ch]) * (double(gradient[ch]) - sum));
    });
  }
};

}  // namespace spillway::cuda
