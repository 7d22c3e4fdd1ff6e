// Clipping of gradients.
#include "ops/clip.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct ClipValues {
  template <class T>
  static void run(const KernelCall& c) {
    const double limit = ClipValuesAttrs::read(c.attrs).limit;
    const Tensor<T> g(c.ins[0]), y(c.outs[0]);
    for (int64_t i = 0; i < ops::elements(c.ins[0]); i++) y[i] = T(ops::clipped_value(double(g[i]), limit));
  }
};

struct SquareSum {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> g(c.ins[0]);
    double sum = c.n_ins > 1 ? double(Tensor<T>(c.ins[1])[0]) : 0;
    for (int64_t i = 0; i < ops::elements(c.ins[0]); i++) sum += double(g[i]) * double(g[i]);
    Tensor<T>(c.outs[0])[0] = T(sum);
  }
};

struct ClipNorm {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> g(c.ins[0]), y(c.outs[0]);
    const double factor = ops::clip_factor(double(Tensor<T>(c.ins[1])[0]), ClipNormAttrs::read(c.attrs).most);
    for (int64_t i = 0; i < ops::elements(c.ins[0]); i++) y[i] = T(double(g[i]) * factor);
  }
};

}  // namespace

const KernelEntry clip_values = entry<ClipValues>();
const KernelEntry square_sum = entry<SquareSum>();
const KernelEntry clip_norm = entry<ClipNorm>();

}  // namespace spillway::ref
