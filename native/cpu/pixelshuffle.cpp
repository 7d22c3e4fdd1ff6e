// Channels as blocks of pixels, and back, a pixel at a time.
#include "ops/pixelshuffle.hpp"

#include "cpu/stripes.hpp"

namespace spillway::cpu {
namespace {

/// Each fine pixel from every factor²-th channel of the coarse one; 0 if the coarse side does not hold it.
struct PixelShuffle : PlainKernel {
  static void run(const KernelCall& c) {
    const View &coarse = c.ins[0], &fine = c.outs[0];
    const int64_t factor = PixelShuffleAttrs::read(c.attrs).factor, area = factor * factor;
    const int64_t lo[2] = {coarse.origin[2], coarse.origin[3]}, hi[2] = {ops::upper(coarse, 2), ops::upper(coarse, 3)};
    with_element(fine, [&](auto element) {
      using T = decltype(element);
#pragma omp parallel for schedule(static) collapse(2)
      for (int64_t b = 0; b < fine.dims[0]; b++)
        for (int64_t h = fine.origin[2]; h < ops::upper(fine, 2); h++)
          for (int64_t w = fine.origin[3]; w < ops::upper(fine, 3); w++) {
            T* const to = at_image<T>(fine, b, h, w);
            if (!ops::holds_pixel(lo, hi, h / factor, w / factor)) {
              std::fill_n(to, fine.dims[1], T(0.0f));
              continue;
            }
            const T* const from = at_image<T>(coarse, b, h / factor, w / factor) + h % factor * factor + w % factor;
            for (int64_t i = 0; i < fine.dims[1]; i++) to[i] = from[i * area];
          }
    });
  }
};

/// Each coarse pixel from its block; channels of pixels that the fine side does not hold are 0.
struct PixelUnshuffle : PlainKernel {
  static void run(const KernelCall& c) {
    const View &fine = c.ins[0], &coarse = c.outs[0];
    const int64_t factor = PixelShuffleAttrs::read(c.attrs).factor, area = factor * factor;
    const int64_t lo[2] = {fine.origin[2], fine.origin[3]}, hi[2] = {ops::upper(fine, 2), ops::upper(fine, 3)};
    with_element(coarse, [&](auto element) {
      using T = decltype(element);
#pragma omp parallel for schedule(static) collapse(2)
      for (int64_t b = 0; b < coarse.dims[0]; b++)
        for (int64_t h = coarse.origin[2]; h < ops::upper(coarse, 2); h++)
          for (int64_t w = coarse.origin[3]; w < ops::upper(coarse, 3); w++) {
            T* const pixel = at_image<T>(coarse, b, h, w);
            for (int64_t place = 0; place < area; place++) {
              const int64_t row = h * factor + place / factor, column = w * factor + place % factor;
              const T* const from = ops::holds_pixel(lo, hi, row, column) ? at_image<T>(fine, b, row, column) : nullptr;
              for (int64_t i = 0; i < fine.dims[1]; i++) pixel[i * area + place] = from ? from[i] : T(0.0f);
            }
          }
    });
  }
};

}  // namespace

const KernelEntry pixel_shuffle = entry<PixelShuffle>();
const KernelEntry pixel_shuffle_bwd = entry<PixelUnshuffle>();
const KernelEntry pixel_unshuffle = entry<PixelUnshuffle>();
const KernelEntry pixel_unshuffle_bwd = entry<PixelShuffle>();

}  // namespace spillway::cpu
