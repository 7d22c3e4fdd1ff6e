// Channels as blocks of pixels, and back. An item owns an element of the written side.
#pragma once
#include "cuda/kernels/pool.hpp"
#include "ops/pixelshuffle.hpp"

namespace spillway::cuda {

/// Elements that the coarse side does not hold are 0.
struct SpreadBlocks : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const View& view = call.ins[0];
    const ImageOf<T> coarse(view);
    const int64_t top = ops::lower(view, 2), left = ops::lower(view, 3), bottom = ops::upper(view, 2), right = ops::upper(view, 3);
    const uint32_t factor = uint32_t(PixelShuffleAttrs::read(call.attrs).factor);
    each_element<T>(exec, call.outs[0], [=] SPILLWAY_BOTH(int32_t b, uint32_t c, int32_t h, int32_t w, T & y) {
      const uint32_t row = uint32_t(h), column = uint32_t(w);
      const uint32_t channel = (c * factor + row % factor) * factor + column % factor;
      const int64_t lo[2] = {top, left}, hi[2] = {bottom, right};
      const bool holds = ops::holds_pixel(lo, hi, row / factor, column / factor);
      y = holds ? float(coarse.at(b, int32_t(row / factor), int32_t(column / factor))[channel]) : 0.0f;
    });
  }
};

/// Elements that the fine side does not hold are 0.
struct GatherBlocks : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const View& view = call.ins[0];
    const ImageOf<T> fine(view);
    const uint32_t factor = uint32_t(PixelShuffleAttrs::read(call.attrs).factor);
    const int64_t top = ops::lower(view, 2), left = ops::lower(view, 3), bottom = ops::upper(view, 2), right = ops::upper(view, 3);
    each_element<T>(exec, call.outs[0], [=] SPILLWAY_BOTH(int32_t b, uint32_t channel, int32_t h, int32_t w, T & y) {
      const int64_t lo[2] = {top, left}, hi[2] = {bottom, right};
      const int64_t row = int64_t(h) * factor + channel / factor % factor, column = int64_t(w) * factor + channel % factor;
      y = ops::holds_pixel(lo, hi, row, column) ? float(fine.at(b, int32_t(row), int32_t(column))[channel / (factor * factor)]) : 0.0f;
    });
  }
};

template <>
struct Kernel<OpKind::pixel_shuffle> : SpreadBlocks {};
template <>
struct Kernel<OpKind::pixel_shuffle_bwd> : GatherBlocks {};
template <>
struct Kernel<OpKind::pixel_unshuffle> : GatherBlocks {};
template <>
struct Kernel<OpKind::pixel_unshuffle_bwd> : SpreadBlocks {};

}  // namespace spillway::cuda
