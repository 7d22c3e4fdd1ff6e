// SGD with momentum, Adam and AdamW, by PyTorch's rules.
#include "ops/optimizer.hpp"

#include <cmath>

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

struct Sgd : PlainKernel {
  static void run(const KernelCall& c) {
    const auto a = SgdAttrs::read(c.attrs);
    const float lr = float(a.lr * c.step->lr_scale), decay = float(a.weight_decay), momentum = float(a.momentum);
    if (c.n_ins == 2)
      return each_chunk<2>({&c.ins[0], &c.ins[1]}, [=](Pointers<2> at, int64_t n) {
        const auto [w, g] = at;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) w[i] -= lr * (g[i] + decay * w[i]);
      });
    // The step is lr·v, or with Nesterov lr·(gradient + momentum·v).
    const float of_gradient = a.nesterov ? 1.0f : 0.0f, of_velocity = a.nesterov ? momentum : 1.0f;
    each_chunk<3>({&c.ins[0], &c.ins[1], &c.ins[2]}, [=](Pointers<3> at, int64_t n) {
      const auto [w, g, v] = at;
#pragma omp simd
      for (int64_t i = 0; i < n; i++) {
        const float gradient = g[i] + decay * w[i];
        v[i] = momentum * v[i] + gradient;
        w[i] -= lr * (of_gradient * gradient + of_velocity * v[i]);
      }
    });
  }
};

struct Adam : PlainKernel {
  static void run(const KernelCall& c) {
    const auto a = AdamAttrs::read(c.attrs);
    const double lr = a.lr * c.step->lr_scale, step = double(c.step->step);
    const float rate = float(lr / (1 - std::pow(a.beta1, step))), root2 = float(std::sqrt(1 - std::pow(a.beta2, step)));
    const float beta1 = float(a.beta1), beta2 = float(a.beta2), rest1 = float(1 - a.beta1), rest2 = float(1 - a.beta2);
    const float eps = float(a.eps), shrink = a.decoupled ? float(1 - lr * a.weight_decay) : 1.0f;
    const float decay = a.decoupled ? 0.0f : float(a.weight_decay);
    each_chunk<4>({&c.ins[0], &c.ins[1], &c.ins[2], &c.ins[3]}, [=](Pointers<4> at, int64_t n) {
      const auto [w, g, m, v] = at;
#pragma omp simd
      for (int64_t i = 0; i < n; i++) {
        const float gradient = g[i] + decay * w[i];
        m[i] = beta1 * m[i] + rest1 * gradient;
        v[i] = beta2 * v[i] + rest2 * gradient * gradient;
        w[i] = shrink * w[i] - rate * m[i] / (std::sqrt(v[i]) / root2 + eps);
      }
    });
  }
};

}  // namespace

const KernelEntry sgd = entry<Sgd>();
const KernelEntry adam = entry<Adam>();

}  // namespace spillway::cpu
