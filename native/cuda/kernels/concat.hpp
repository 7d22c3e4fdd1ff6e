// Joining along channels, taking channels out and putting them back, and shuffling them.
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

template <>
struct Kernel<OpKind::take_channels> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = TakeChannelsAttrs::read(c.attrs);
    copy_channels<T>(exec, c.ins[0], a.from, c.outs[0], 0, a.count);
  }
};

template <>
struct Kernel<OpKind::put_channels> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> dy(c.ins[0]), dx(c.outs[0]);
    const uint32_t channels = uint32_t(c.outs[0].dims[1]), first = uint32_t(PutChannelsAttrs::read(c.attrs).from);
    const uint32_t last = first + uint32_t(c.ins[0].dims[1]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const uint32_t pixel = i / channels, ch = i % channels;
      dx.at(pixel)[ch] = ch >= first && ch < last ? float(dy.at(pixel)[ch - first]) : 0.0f;
    });
  }
};

/// Shuffles the channels of each pixel in `groups`.
template <class T, class Exec>
void shuffle(Exec& exec, const View& x_view, const View& y_view, int64_t groups) {
  const PixelsOf<T> x(x_view), y(y_view);
  const uint32_t channels = uint32_t(y_view.dims[1]);
  exec.each(ops::elements(y_view), [=] SPILLWAY_BOTH(uint32_t i) {
    const uint32_t pixel = i / channels, to = i % channels;
    y.at(pixel)[to] = x.at(pixel)[ops::shuffled_from(to, channels, groups)];
  });
}

template <>
struct Kernel<OpKind::shuffle_channels> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    shuffle<T>(exec, c.ins[0], c.outs[0], ShuffleChannelsAttrs::read(c.attrs).groups);
  }
};

/// The inverse of a shuffle in G groups is one in C / G.
template <>
struct Kernel<OpKind::shuffle_channels_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    shuffle<T>(exec, c.ins[0], c.outs[0], c.ins[0].dims[1] / ShuffleChannelsBwdAttrs::read(c.attrs).groups);
  }
};

}  // namespace spillway::cuda
