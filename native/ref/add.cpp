// Sums of equal boxes, and of gradients that cover parts of a box (zero outside).
#include "ops/add.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

bool holds(const View& v, int64_t b, int64_t c, int64_t h, int64_t w) {
  const int64_t place[4] = {b, c, h, w};
  for (int d = 0; d < 4; d++)
    if (place[d] < ops::lower(v, d) || place[d] >= ops::upper(v, d)) return false;
  return true;
}

template <class T>
void sum_of_inputs(const KernelCall& c) {
  const Tensor<T> y(c.outs[0]);
  each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
    double sum = 0;
    for (uint32_t i = 0; i < c.n_ins; i++)
      if (holds(c.ins[i], b, ch, h, w)) sum += double(Tensor<T>(c.ins[i]).global(b, ch, h, w));
    y.global(b, ch, h, w) = T(sum);
  });
}

struct Add {
  template <class T>
  static void run(const KernelCall& c) {
    sum_of_inputs<T>(c);
  }
};

struct AddRelu {
  template <class T>
  static void run(const KernelCall& c) {
    const double slope = AddReluAttrs::read(c.attrs).slope;
    sum_of_inputs<T>(c);
    const Tensor<T> y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      T& value = y.global(b, ch, h, w);
      if (value <= 0) value = slope == 0 ? T(0) : T(slope * double(value));
    });
  }
};

struct GradSum {
  template <class T>
  static void run(const KernelCall& c) {
    sum_of_inputs<T>(c);
  }
};

}  // namespace

const KernelEntry add = entry<Add>();
const KernelEntry add_relu = entry<AddRelu>();
const KernelEntry grad_sum = entry<GradSum>();

}  // namespace spillway::ref
