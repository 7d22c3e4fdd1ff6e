// Joining along channels, taking channels out and putting them back: one copy of channels for each pixel. Shuffled channels are
// copied one by one.
#include "ops/concat.hpp"

#include <cstring>

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

/// Copies `count` channels of each pixel from channel `from` of x to channel `to` of y (counted inside the views).
void copy_channels(const View& x, int64_t from, const View& y, int64_t to, int64_t count) {
  with_element(y, [&](auto element) {
    using T = decltype(element);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < y.dims[0]; b++)
      for (int64_t h = 0; h < y.dims[2]; h++)
        for (int64_t w = 0; w < y.dims[3]; w++)
          std::memcpy(pixel_of<T>(y, b, h, w) + to, pixel_of<T>(x, b, h, w) + from, size_t(count) * sizeof(T));
  });
}

struct Concat : PlainKernel {
  static void run(const KernelCall& c) {
    int64_t to = 0;
    for (uint32_t i = 0; i < c.n_ins; i++) {
      copy_channels(c.ins[i], 0, c.outs[0], to, c.ins[i].dims[1]);
      to += c.ins[i].dims[1];
    }
  }
};

struct SliceChannels : PlainKernel {
  static void run(const KernelCall& c) { copy_channels(c.ins[0], SliceChannelsAttrs::read(c.attrs).from, c.outs[0], 0, c.outs[0].dims[1]); }
};

struct TakeChannels : PlainKernel {
  static void run(const KernelCall& c) {
    const auto a = TakeChannelsAttrs::read(c.attrs);
    copy_channels(c.ins[0], a.from, c.outs[0], 0, a.count);
  }
};

struct PutChannels : PlainKernel {
  static void run(const KernelCall& c) {
    const View &dy = c.ins[0], &dx = c.outs[0];
    const int64_t from = PutChannelsAttrs::read(c.attrs).from, count = dy.dims[1], all = dx.dims[1];
    with_element(dx, [&](auto element) {
      using T = decltype(element);
#pragma omp parallel for schedule(static) collapse(2)
      for (int64_t b = 0; b < dx.dims[0]; b++)
        for (int64_t h = 0; h < dx.dims[2]; h++)
          for (int64_t w = 0; w < dx.dims[3]; w++) {
            T* const to = pixel_of<T>(dx, b, h, w);
            std::memset(to, 0, size_t(from) * sizeof(T));
            std::memcpy(to + from, pixel_of<T>(dy, b, h, w), size_t(count) * sizeof(T));
            std::memset(to + from + count, 0, size_t(all - from - count) * sizeof(T));
          }
    });
  }
};

/// Shuffles the channels of each pixel in `groups`.
void shuffle(const View& x, const View& y, int64_t groups) {
  const int64_t inner = y.dims[1] / groups;
  with_element(y, [&](auto element) {
    using T = decltype(element);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < y.dims[0]; b++)
      for (int64_t h = 0; h < y.dims[2]; h++)
        for (int64_t w = 0; w < y.dims[3]; w++) {
          const T* const from = pixel_of<T>(x, b, h, w);
          T* to = pixel_of<T>(y, b, h, w);
          for (int64_t i = 0; i < inner; i++)
            for (int64_t g = 0; g < groups; g++) *to++ = from[g * inner + i];
        }
  });
}

struct ShuffleChannels : PlainKernel {
  static void run(const KernelCall& c) { shuffle(c.ins[0], c.outs[0], ShuffleChannelsAttrs::read(c.attrs).groups); }
};

/// The inverse of a shuffle in G groups is one in C / G.
struct ShuffleChannelsBackward : PlainKernel {
  static void run(const KernelCall& c) { shuffle(c.ins[0], c.outs[0], c.ins[0].dims[1] / ShuffleChannelsBwdAttrs::read(c.attrs).groups); }
};

}  // namespace

const KernelEntry concat = entry<Concat>();
const KernelEntry slice_channels = entry<SliceChannels>();
const KernelEntry take_channels = entry<TakeChannels>();
const KernelEntry put_channels = entry<PutChannels>();
const KernelEntry shuffle_channels = entry<ShuffleChannels>();
const KernelEntry shuffle_channels_bwd = entry<ShuffleChannelsBackward>();

}  // namespace spillway::cpu
