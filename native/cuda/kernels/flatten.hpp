// Between channels-last images and rows in PyTorch's order (C, then H, then W). Items go along the row's side.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/flatten.hpp"

namespace spillway::cuda {

/// The place in the image of element i of the flat side.
struct FlatOrder {
  uint32_t channels, pixels;
  explicit FlatOrder(const View& image) : channels(uint32_t(image.dims[1])), pixels(uint32_t(image.dims[2] * image.dims[3])) {}
  SPILLWAY_BOTH int64_t in_image(uint32_t i) const {
    const uint32_t size = channels * pixels, b = i / size, within = i % size;
    return int64_t(b) * size + int64_t(within % pixels) * channels + within / pixels;
  }
};

template <>
struct Kernel<OpKind::flatten> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const T* const x = stored<T>(c.ins[0]);
    T* const y = stored<T>(c.outs[0]);
    const FlatOrder order(c.ins[0]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) { y[i] = x[order.in_image(i)]; });
  }
};

template <>
struct Kernel<OpKind::flatten_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const T* const dy = stored<T>(c.ins[0]);
    T* const dx = stored<T>(c.outs[0]);
    const FlatOrder order(c.outs[0]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) { dx[order.in_image(i)] = dy[i]; });
  }
};

}  // namespace spillway::cuda
