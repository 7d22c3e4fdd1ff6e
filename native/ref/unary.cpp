// Activations without parameters and their gradients, from the table, in double.
#include "ops/unary.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

template <class F>
struct Unary {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    ops::with_unary<F>(c.attrs, [&](auto f) {
      each_element(c.outs[0],
                   [&](int64_t b, int64_t ch, int64_t h, int64_t w) { y.global(b, ch, h, w) = T(f.value(double(x.global(b, ch, h, w)))); });
    });
  }
};

template <class F>
struct UnaryBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> value(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    ops::with_unary<F>(c.attrs, [&](auto f) {
      each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
        dx.global(b, ch, h, w) = T(f.gradient(double(value.global(b, ch, h, w)), double(dy.global(b, ch, h, w))));
      });
    });
  }
};

}  // namespace

#define SPILLWAY_UNARY_ENTRY(kind)                           \
  const KernelEntry kind = entry<Unary<ops::unary::kind>>(); \
  const KernelEntry kind##_bwd = entry<UnaryBackward<ops::unary::kind>>();
SPILLWAY_UNARY(SPILLWAY_UNARY_ENTRY)
#undef SPILLWAY_UNARY_ENTRY

}  // namespace spillway::ref
