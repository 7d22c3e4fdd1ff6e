// A weight laid out: the same elements in another order, rounded where they are stored so.
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct LayOut {
  static constexpr bool works_on_half = true;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> laid(c.outs[0]);
    const auto fill = [&](const auto& w) {
      each_element(c.outs[0], [&](int64_t o, int64_t i, int64_t ky, int64_t kx) { laid.at(o, i, ky, kx) = T(double(w.at(o, i, ky, kx))); });
    };
    if (c.ins[0].dtype == DType::f64)
      fill(Tensor<double>(c.ins[0]));
    else
      fill(Tensor<float>(c.ins[0]));
  }
};

}  // namespace

const KernelEntry lay_out = entry<LayOut>();

}  // namespace spillway::ref
