// Casts between 16-bit floats and the call's float type: a copy, which rounds where it is stored.
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Cast {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) { y.global(b, ch, h, w) = x.global(b, ch, h, w); });
  }
};

}  // namespace

const KernelEntry to_bf16 = entry<Cast>();
const KernelEntry from_bf16 = entry<Cast>();
const KernelEntry to_bf16_grad = entry<Cast>();
const KernelEntry from_bf16_grad = entry<Cast>();
const KernelEntry to_f16 = entry<Cast>();
const KernelEntry from_f16 = entry<Cast>();
const KernelEntry to_f16_grad = entry<Cast>();
const KernelEntry from_f16_grad = entry<Cast>();

}  // namespace spillway::ref
