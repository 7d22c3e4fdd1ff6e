// Joining along channels, taking channels out and putting them back, and shuffling them.
#include "ops/concat.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Copies `count` channels of each pixel from channel `from` of x to channel `to` of y (counted inside the views).
template <class T>
void copy_channels(const View& x_view, int64_t from, const View& y_view, int64_t to, int64_t count) {
  const Tensor<T> x(x_view), y(y_view);
  for (int64_t b = 0; b < y_view.dims[0]; b++)
    for (int64_t h = 0; h < y_view.dims[2]; h++)
      for (int64_t w = 0; w < y_view.dims[3]; w++)
        for (int64_t c = 0; c < count; c++) y.at(b, to + c, h, w) = x.at(b, from + c, h, w);
}

struct Concat {
  template <class T>
  static void run(const KernelCall& c) {
    int64_t to = 0;
    for (uint32_t i = 0; i < c.n_ins; i++) {
      copy_channels<T>(c.ins[i], 0, c.outs[0], to, c.ins[i].dims[1]);
      to += c.ins[i].dims[1];
    }
  }
};

struct SliceChannels {
  template <class T>
  static void run(const KernelCall& c) {
    copy_channels<T>(c.ins[0], SliceChannelsAttrs::read(c.attrs).from, c.outs[0], 0, c.outs[0].dims[1]);
  }
};

struct TakeChannels {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = TakeChannelsAttrs::read(c.attrs);
    copy_channels<T>(c.ins[0], a.from, c.outs[0], 0, a.count);
  }
};

struct PutChannels {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dx(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) { dx.global(b, ch, h, w) = T(0); });
    copy_channels<T>(c.ins[0], 0, c.outs[0], PutChannelsAttrs::read(c.attrs).from, c.ins[0].dims[1]);
  }
};

struct ShuffleChannels {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const int64_t channels = c.outs[0].dims[1], groups = ShuffleChannelsAttrs::read(c.attrs).groups;
    each_element(c.outs[0], [&](int64_t b, int64_t to, int64_t h, int64_t w) {
      y.global(b, to, h, w) = x.global(b, ops::shuffled_from(to, channels, groups), h, w);
    });
  }
};

struct ShuffleChannelsBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), dx(c.outs[0]);
    const int64_t channels = c.ins[0].dims[1], groups = ShuffleChannelsBwdAttrs::read(c.attrs).groups;
    each_element(c.ins[0], [&](int64_t b, int64_t to, int64_t h, int64_t w) {
      dx.global(b, ops::shuffled_from(to, channels, groups), h, w) = dy.global(b, to, h, w);
    });
  }
};

}  // namespace

const KernelEntry concat = entry<Concat>();
const KernelEntry slice_channels = entry<SliceChannels>();
const KernelEntry take_channels = entry<TakeChannels>();
const KernelEntry put_channels = entry<PutChannels>();
const KernelEntry shuffle_channels = entry<ShuffleChannels>();
const KernelEntry shuffle_channels_bwd = entry<ShuffleChannelsBackward>();

}  // namespace spillway::ref
