// Joining along channels, and taking channels out again: one copy of channels for each pixel.
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

}  // namespace

const KernelEntry concat = entry<Concat>();
const KernelEntry slice_channels = entry<SliceChannels>();

}  // namespace spillway::cpu
