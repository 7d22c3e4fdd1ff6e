// The fully connected layer and its gradients: y = x wT + b, dx = dy w, dw = dyT x, db = the sum of dy over images.
#include "ops/linear.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct LinearForward {
  static constexpr auto check = ops::check_linear;
  static constexpr uint32_t product = 1;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), w(c.ins[1]), y(c.outs[0]);
    for (int64_t b = 0; b < c.outs[0].dims[0]; b++)
      for (int64_t o = 0; o < c.outs[0].dims[1]; o++) {
        double sum = c.n_ins > 2 ? double(Tensor<T>(c.ins[2])[o]) : 0.0;
        for (int64_t i = 0; i < c.ins[0].dims[1]; i++) sum += double(x.at(b, i, 0, 0)) * double(w.at(o, i, 0, 0));
        y.at(b, o, 0, 0) = T(sum);
      }
  }
};

struct LinearBackwardData {
  static constexpr auto check = ops::check_linear_bwd_data;
  static constexpr uint32_t product = 1;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), w(c.ins[1]), dx(c.outs[0]);
    for (int64_t b = 0; b < c.outs[0].dims[0]; b++)
      for (int64_t i = 0; i < c.outs[0].dims[1]; i++) {
        double sum = 0;
        for (int64_t o = 0; o < c.ins[0].dims[1]; o++) sum += double(dy.at(b, o, 0, 0)) * double(w.at(o, i, 0, 0));
        dx.at(b, i, 0, 0) = T(sum);
      }
  }
};

struct LinearBackwardWeights {
  static constexpr auto check = ops::check_linear_bwd_weights;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dw(c.outs[0]);
    const int64_t images = c.ins[0].dims[0];
    for (int64_t o = 0; o < c.ins[1].dims[1]; o++) {
      double bias = 0;
      for (int64_t b = 0; b < images; b++) bias += double(dy.at(b, o, 0, 0));
      if (c.n_outs > 1) Tensor<T>(c.outs[1])[o] = T(bias);
      for (int64_t i = 0; i < c.ins[0].dims[1]; i++) {
        double sum = 0;
        for (int64_t b = 0; b < images; b++) sum += double(dy.at(b, o, 0, 0)) * double(x.at(b, i, 0, 0));
        dw.at(o, i, 0, 0) = T(sum);
      }
    }
  }
};

}  // namespace

const KernelEntry linear = entry<LinearForward>();
const KernelEntry linear_bwd_data = entry<LinearBackwardData>();
const KernelEntry linear_bwd_weights = entry<LinearBackwardWeights>();

}  // namespace spillway::ref
