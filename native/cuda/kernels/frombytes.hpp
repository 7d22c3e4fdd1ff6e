// Bytes of pixels to numbers.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/frombytes.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::from_bytes> : OwnKernel {
  /// As many channels as go into a kernel's parameters; images have fewer.
  static constexpr uint32_t PIECE = 64;
  struct Scales {
    ops::ByteScale<float> at[PIECE];
  };
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<const uint8_t> x(c.ins[0]);
    const PixelsOf<T> y(c.outs[0]);
    for (uint32_t first = 0; first < y.channels; first += PIECE) {
      const uint32_t n = y.channels - first < PIECE ? y.channels - first : PIECE;
      Scales scales{};
      for (uint32_t k = 0; k < n; k++) scales.at[k] = ops::ByteScale<float>::of(c, c.outs[0].origin[1] + first + k);
      exec.each(ops::pixels(c.outs[0]) * n, [=] SPILLWAY_BOTH(uint32_t i) {
        const uint32_t pixel = i / n, k = i % n;
        y.at(pixel)[first + k] = ops::from_byte(x.at(pixel)[first + k], scales.at[k].mean, scales.at[k].deviation);
      });
    }
  }
};

}  // namespace spillway::cuda
