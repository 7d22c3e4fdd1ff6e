// The fully connected layer and its gradients: y = x wT + b, dx = dy w, dw = dyT x, db = the sum of dy over pixels.
// Activations are dense, and their channels lie together: row p of a matrix is pixel p.
#include "ops/linear.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct LinearForward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), w(c.ins[1]), y(c.outs[0]);
    const int64_t in = c.ins[0].dims[1], out = c.outs[0].dims[1];
    for (int64_t p = 0; p < ops::pixels(c.ins[0]); p++)
      for (int64_t o = 0; o < out; o++) {
        double sum = c.n_ins > 2 ? double(Tensor<T>(c.ins[2])[o]) : 0.0;
        for (int64_t i = 0; i < in; i++) sum += double(x[p * in + i]) * double(w[o * in + i]);
        y[p * out + o] = T(sum);
      }
  }
};

struct LinearBackwardData {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), w(c.ins[1]), dx(c.outs[0]);
    const int64_t in = c.outs[0].dims[1], out = c.ins[0].dims[1];
    for (int64_t p = 0; p < ops::pixels(c.ins[0]); p++)
      for (int64_t i = 0; i < in; i++) {
        double sum = 0;
        for (int64_t o = 0; o < out; o++) sum += double(dy[p * out + o]) * double(w[o * in + i]);
        dx[p * in + i] = T(sum);
      }
  }
};

struct LinearBackwardWeights {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dw(c.outs[0]);
    const int64_t pixels = ops::pixels(c.ins[0]), in = c.ins[0].dims[1], out = c.ins[1].dims[1];
    for (int64_t o = 0; o < out; o++) {
      double bias = 0;
      for (int64_t p = 0; p < pixels; p++) bias += double(dy[p * out + o]);
      if (c.n_outs > 1) Tensor<T>(c.outs[1])[o] = T(bias);
      for (int64_t i = 0; i < in; i++) {
        double sum = 0;
        for (int64_t p = 0; p < pixels; p++) sum += double(dy[p * out + o]) * double(x[p * in + i]);
        dw[o * in + i] = T(sum);
      }
    }
  }
};

}  // namespace

const KernelEntry linear = entry<LinearForward>();
const KernelEntry linear_bwd_data = entry<LinearBackwardData>();
const KernelEntry linear_bwd_weights = entry<LinearBackwardWeights>();

}  // namespace spillway::ref
