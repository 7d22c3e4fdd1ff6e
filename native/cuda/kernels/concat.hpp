// Joining along channels, and taking channels out again.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/concat.hpp"

namespace spillway::cuda {

/// Copies `count` channels of each pixel from channel `from` of x to channel `to` of y (counted inside the views).
template <class T, class Exec>
void copy_channels(Exec& exec, const View& x_view, int64_t from, const View& y_view, int64_t to, int64_t count) {
  const PixelsOf<T> x(x_view), y(y_view);
  const uint32_t channels = uint32_t(count);
  exec.each(ops::pixels(y_view) * count, [=] SPILLWAY_BOTH(uint32_t i) {
    const uint32_t pixel = i / channels, c = i % channels;
    y.at(pixel)[to + c] = x.at(pixel)[from + c];
  });
}

template <>
struct Kernel<OpKind::concat> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    int64_t to = 0;
    for (uint32_t i = 0; i < c.n_ins; to += c.ins[i++].dims[1]) copy_channels<T>(exec, c.ins[i], 0, c.outs[0], to, c.ins[i].dims[1]);
  }
};

template <>
struct Kernel<OpKind::slice_channels> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    copy_channels<T>(exec, c.ins[0], SliceChannelsAttrs::read(c.attrs).from, c.outs[0], 0, c.outs[0].dims[1]);
  }
};

}  // namespace spillway::cuda
