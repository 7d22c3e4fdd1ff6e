// SGD with momentum, Adam and AdamW, by PyTorch's rules.
#include <cmath>

#include "ops/optimizer.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Sgd {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = SgdAttrs::read(c.attrs);
    const Tensor<T> w(c.ins[0]), g(c.ins[1]);
    for (int64_t i = 0; i < ops::elements(c.ins[0]); i++) {
      double gradient = double(g[i]) + a.weight_decay * double(w[i]);
      if (c.n_ins > 2) {
        const Tensor<T> v(c.ins[2]);
        const double velocity = a.momentum * double(v[i]) + gradient;
        v[i] = T(velocity);
        gradient = a.nesterov ? gradient + a.momentum * velocity : velocity;
      }
      w[i] = T(double(w[i]) - a.lr * c.step->lr_scale * gradient);
    }
  }
};

struct Adam {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AdamAttrs::read(c.attrs);
    const Tensor<T> w(c.ins[0]), g(c.ins[1]), m(c.ins[2]), v(c.ins[3]);
    const double lr = a.lr * c.step->lr_scale, step = double(c.step->step);
    const double bias1 = 1 - std::pow(a.beta1, step), bias2 = 1 - std::pow(a.beta2, step);
    for (int64_t i = 0; i < ops::elements(c.ins[0]); i++) {
      const double weight = double(w[i]) * (a.decoupled ? 1 - lr * a.weight_decay : 1);
      const double gradient = double(g[i]) + (a.decoupled ? 0 : a.weight_decay * double(w[i]));
      const double first = a.beta1 * double(m[i]) + (1 - a.beta1) * gradient;
      const double second = a.beta2 * double(v[i]) + (1 - a.beta2) * gradient * gradient;
      m[i] = T(first);
      v[i] = T(second);
      w[i] = T(weight - lr / bias1 * first / (std::sqrt(second) / std::sqrt(bias2) + a.eps));
    }
  }
};

}  // namespace

const KernelEntry sgd = entry<Sgd>();
const KernelEntry adam = entry<Adam>();

}  // namespace spillway::ref
