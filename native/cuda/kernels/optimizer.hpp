// SGD with momentum, Adam and AdamW, by PyTorch's rules. The step and the factor of the learning rate are read when the
// items run: a graph that is replayed takes the next step.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/optimizer.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::sgd> : OwnKernel {
  static constexpr auto check = ops::check_sgd;
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = SgdAttrs::read(c.attrs);
    const StepContext* const step = exec.step();
    float *const w = floats(c.ins[0]), *const v = c.n_ins > 2 ? floats(c.ins[2]) : nullptr;
    const float* const g = floats(c.ins[1]);
    const double rate = a.lr;
    const float decay = float(a.weight_decay), momentum = float(a.momentum);
    // The step is lr·v, or with Nesterov lr·(gradient + momentum·v).
    const float of_gradient = a.nesterov ? 1.0f : 0.0f, of_velocity = a.nesterov ? momentum : 1.0f;
    exec.each(ops::elements(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const float lr = float(rate * step->lr_scale), gradient = g[i] + decay * w[i];
      if (!v) {
        w[i] -= lr * gradient;
        return;
      }
      v[i] = momentum * v[i] + gradient;
      w[i] -= lr * (of_gradient * gradient + of_velocity * v[i]);
    });
  }
};

template <>
struct Kernel<OpKind::adam> : OwnKernel {
  static constexpr auto check = ops::check_adam;
  /// The step's share of the formula: rate over the first bias, the root of the second.
  static int64_t workspace(const KernelCall&) { return 3 * int64_t(sizeof(float)); }
  template <class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = AdamAttrs::read(c.attrs);
    const StepContext* const step = exec.step();
    float* const of_step = static_cast<float*>(c.workspace);
    const double rate = a.lr, decay = a.weight_decay, beta1 = a.beta1, beta2 = a.beta2;
    const bool decoupled = a.decoupled != 0;
    exec.each(1, [=] SPILLWAY_BOTH(uint32_t) {
      const double lr = rate * step->lr_scale, n = double(step->step);
      of_step[0] = float(lr / (1 - pow(beta1, n)));
      of_step[1] = float(1 / sqrt(1 - pow(beta2, n)));
      of_step[2] = decoupled ? float(1 - lr * decay) : 1.0f;
    });
    float *const w = floats(c.ins[0]), *const m = floats(c.ins[2]), *const v = floats(c.ins[3]);
    const float* const g = floats(c.ins[1]);
    const float first = float(beta1), second = float(beta2), eps = float(a.eps), coupled = decoupled ? 0.0f : float(decay);
    const float rest1 = float(1 - beta1), rest2 = float(1 - beta2);
    exec.each(ops::elements(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const float gradient = g[i] + coupled * w[i];
      m[i] = first * m[i] + rest1 * gradient;
      v[i] = second * v[i] + rest2 * gradient * gradient;
      w[i] = w[i] * of_step[2] - of_step[0] * m[i] / (sqrtf(v[i]) * of_step[1] + eps);
    });
  }
};

}  // namespace spillway::cuda
