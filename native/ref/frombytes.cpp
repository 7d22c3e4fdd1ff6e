// Bytes of pixels to numbers.
#include "ops/frombytes.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct FromBytes {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<const uint8_t> x(c.ins[0]);
    const Tensor<T> y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const auto s = ops::ByteScale<double>::of(c, ch);
      y.global(b, ch, h, w) = T(ops::from_byte(x.global(b, ch, h, w), s.mean, s.deviation));
    });
  }
};

}  // namespace

const KernelEntry from_bytes = entry<FromBytes>();

}  // namespace spillway::ref
