// Casts between 16-bit floats and f32: a copy through floats, which rounds where it is stored.
#pragma once
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

template <class From, class To>
struct Cast : OwnKernel {
  template <class T, class Exec>  // nvcc wants names for all of them around what it runs
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<From> x(c.ins[0]);
    const PixelsOf<To> y(c.outs[0]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const uint32_t pixel = i / y.channels, ch = i % y.channels;
      y.at(pixel)[ch] = float(x.at(pixel)[ch]);
    });
  }
};

template <>
struct Kernel<OpKind::to_bf16> : Cast<float, StoredBf16> {};
template <>
struct Kernel<OpKind::from_bf16> : Cast<StoredBf16, float> {};
template <>
struct Kernel<OpKind::to_bf16_grad> : Cast<float, StoredBf16> {};
template <>
struct Kernel<OpKind::from_bf16_grad> : Cast<StoredBf16, float> {};
template <>
struct Kernel<OpKind::to_f16> : Cast<float, StoredF16> {};
template <>
struct Kernel<OpKind::from_f16> : Cast<StoredF16, float> {};
template <>
struct Kernel<OpKind::to_f16_grad> : Cast<float, StoredF16> {};
template <>
struct Kernel<OpKind::from_f16_grad> : Cast<StoredF16, float> {};

}  // namespace spillway::cuda
