// SGD with momentum, Adam and AdamW, by PyTorch's rules, for many tensors in one go. The step and the factor of the learning rate
// are read when the items run: a graph that is replayed takes the next step. An item owns an element of all tensors laid end to end.
// Worked example: tensors of 64, 10 and 10 elements: `from` is 0 64 74 84; item 70 is element 6 of the second.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/optimizer.hpp"

namespace spillway::cuda {

/// As many as a kernel's parameters hold.
constexpr uint32_t MOST_TENSORS = 64;

/// The first `Operands` operands of calls that have equal attributes.
template <uint32_t Operands>
struct TensorsBeside {
  uint32_t count = 0;
  uint32_t from[MOST_TENSORS + 1] = {};
  float* at[MOST_TENSORS][Operands] = {};

  void add(const KernelCall& c) {
    for (uint32_t k = 0; k < Operands; k++) at[count][k] = k < c.n_ins ? floats(c.ins[k]) : nullptr;
    from[count + 1] = from[count] + uint32_t(ops::elements(c.ins[0]));
    count++;
  }
  bool has_room(const KernelCall& c) const { return count < MOST_TENSORS && int64_t(from[count]) + ops::elements(c.ins[0]) < MOST_ELEMENTS; }

  SPILLWAY_BOTH uint32_t tensor_of(uint32_t item) const {
    uint32_t lo = 0, hi = count;
    while (hi - lo > 1) {
      const uint32_t middle = (lo + hi) / 2;
      if (from[middle] <= item) lo = middle;
      else hi = middle;
    }
    return lo;
  }
};

/// Calls f(arrays of a tensor, element) for every element of all calls' tensors.
template <uint32_t Operands, class Exec, class F>
void each_of_tensors(Exec& exec, const KernelCall* calls, uint32_t n, F f) {
  for (uint32_t next = 0; next < n;) {
    TensorsBeside<Operands> tensors;
    do tensors.add(calls[next++]);
    while (next < n && tensors.has_room(calls[next]));
    exec.each(tensors.from[tensors.count], [=] SPILLWAY_BOTH(uint32_t item) {
      const uint32_t tensor = tensors.tensor_of(item);
      f(tensors.at[tensor], item - tensors.from[tensor]);
    });
  }
}

struct UpdateKernel : OwnKernel {
  static constexpr uint32_t together = MOST_TENSORS;
};

template <>
struct Kernel<OpKind::sgd> : UpdateKernel {
  template <class, class Exec>
  static void run(Exec& exec, const KernelCall& c) { run_together(exec, &c, 1); }
  template <class Exec>
  static void run_together(Exec& exec, const KernelCall* calls, uint32_t n) {
    const auto a = SgdAttrs::read(calls[0].attrs);
    const StepContext* const step = exec.step();
    const double rate = a.lr;
    const float decay = float(a.weight_decay), momentum = float(a.momentum);
    // The step is lr·v, or with Nesterov lr·(gradient + momentum·v).
    const float of_gradient = a.nesterov ? 1.0f : 0.0f, of_velocity = a.nesterov ? momentum : 1.0f;
    each_of_tensors<3>(exec, calls, n, [=] SPILLWAY_BOTH(float* const* arrays, uint32_t i) {
      float *const w = arrays[0], *const v = arrays[2];
      const float lr = float(rate * step->lr_scale), gradient = arrays[1][i] + decay * w[i];
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
struct Kernel<OpKind::adam> : UpdateKernel {
  /// The step's share of the formula: rate over the first bias, the root of the second.
  static int64_t workspace(const KernelCall&) { return 3 * int64_t(sizeof(float)); }
  template <class, class Exec>
  static void run(Exec& exec, const KernelCall& c) { run_together(exec, &c, 1); }
  template <class Exec>
  static void run_together(Exec& exec, const KernelCall* calls, uint32_t n) {
    const auto a = AdamAttrs::read(calls[0].attrs);
    const StepContext* const step = exec.step();
    float* const of_step = static_cast<float*>(calls[0].workspace);
    const double rate = a.lr, decay = a.weight_decay, beta1 = a.beta1, beta2 = a.beta2;
    const bool decoupled = a.decoupled != 0;
    exec.each(1, [=] SPILLWAY_BOTH(uint32_t) {
      const double lr = rate * step->lr_scale, n_steps = double(step->step);
      of_step[0] = float(lr / (1 - pow(beta1, n_steps)));
      of_step[1] = float(1 / sqrt(1 - pow(beta2, n_steps)));
      of_step[2] = decoupled ? float(1 - lr * decay) : 1.0f;
    });
    const float first = float(beta1), second = float(beta2), eps = float(a.eps), coupled = decoupled ? 0.0f : float(decay);
    const float rest1 = float(1 - beta1), rest2 = float(1 - beta2);
    each_of_tensors<4>(exec, calls, n, [=] SPILLWAY_BOTH(float* const* arrays, uint32_t i) {
      float *const w = arrays[0], *const m = arrays[2], *const v = arrays[3];
      const float gradient = arrays[1][i] + coupled * w[i];
      m[i] = first * m[i] + rest1 * gradient;
      v[i] = second * v[i] + rest2 * gradient * gradient;
      w[i] = w[i] * of_step[2] - of_step[0] * m[i] / (sqrtf(v[i]) * of_step[1] + eps);
    });
  }
};

}  // namespace spillway::cuda
