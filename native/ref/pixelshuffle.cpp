// Channels as blocks of pixels, and back.
#include "ops/pixelshuffle.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Each fine element from the coarse one; 0 if the coarse side does not hold it.
template <class T>
void spread(const View& coarse_view, const View& fine_view, int64_t factor) {
  const Tensor<T> coarse(coarse_view), fine(fine_view);
  const int64_t lo[2] = {ops::lower(coarse_view, 2), ops::lower(coarse_view, 3)};
  const int64_t hi[2] = {ops::upper(coarse_view, 2), ops::upper(coarse_view, 3)};
  each_element(fine_view, [&](int64_t b, int64_t c, int64_t h, int64_t w) {
    const int64_t channel = (c * factor + h % factor) * factor + w % factor;
    fine.global(b, c, h, w) = ops::holds_pixel(lo, hi, h / factor, w / factor) ? coarse.global(b, channel, h / factor, w / factor) : T(0);
  });
}

/// Each coarse element from the fine one; 0 if the fine side does not hold it.
template <class T>
void gather(const View& fine_view, const View& coarse_view, int64_t factor) {
  const Tensor<T> coarse(coarse_view), fine(fine_view);
  const int64_t lo[2] = {ops::lower(fine_view, 2), ops::lower(fine_view, 3)}, hi[2] = {ops::upper(fine_view, 2), ops::upper(fine_view, 3)};
  each_element(coarse_view, [&](int64_t b, int64_t channel, int64_t h, int64_t w) {
    const int64_t c = channel / (factor * factor), row = h * factor + channel / factor % factor, column = w * factor + channel % factor;
    coarse.global(b, channel, h, w) = ops::holds_pixel(lo, hi, row, column) ? fine.global(b, c, row, column) : T(0);
  });
}

struct PixelShuffle {
  template <class T>
  static void run(const KernelCall& c) {
    spread<T>(c.ins[0], c.outs[0], PixelShuffleAttrs::read(c.attrs).factor);
  }
};

struct PixelUnshuffle {
  template <class T>
  static void run(const KernelCall& c) {
    gather<T>(c.ins[0], c.outs[0], PixelShuffleAttrs::read(c.attrs).factor);
  }
};

}  // namespace

const KernelEntry pixel_shuffle = entry<PixelShuffle>();
const KernelEntry pixel_shuffle_bwd = entry<PixelUnshuffle>();
const KernelEntry pixel_unshuffle = entry<PixelUnshuffle>();
const KernelEntry pixel_unshuffle_bwd = entry<PixelShuffle>();

}  // namespace spillway::ref
