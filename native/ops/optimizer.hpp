// The arithmetic of optimizers, one definition for all devices: R is the computing type of a device. In: a weight, its gradient
// and the state of the entry of staging/ops/optimizer.ts, in that order. Out: these after one step. Absent state is 0, and its new
// value is dropped. Invariant: the bits of an element depend on nothing else. A struct of an update's name and its entry are an
// optimizer. `counts`: it needs the number of the step; the GPU computes its factors once a step.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

namespace update {

/// PyTorch's SGD, dampening 0.
template <class R>
struct sgd {
  static constexpr bool counts = false;
  R rate, decay, momentum;
  bool nesterov;
  template <class Attrs>
  SPILLWAY_BOTH sgd(const Attrs& a, const StepContext& s)
      : rate(R(a.lr * s.lr_scale)), decay(R(a.weight_decay)), momentum(R(a.momentum)), nesterov(a.nesterov != 0) {}

  SPILLWAY_BOTH void operator()(R& w, R g, R& v) const {
    const R gradient = g + decay * w;
    v = momentum * v + gradient;
    w -= rate * (nesterov ? gradient + momentum * v : v);
  }
};

/// Adam, and AdamW where the decay is decoupled. Both moments are corrected for the steps that there were.
template <class R>
struct adam {
  static constexpr bool counts = true;
  R rate, root, beta1, rest1, beta2, rest2, eps, shrink, decay;
  template <class Attrs>
  SPILLWAY_BOTH adam(const Attrs& a, const StepContext& s)
      : rate(R(a.lr * s.lr_scale / (1 - std::pow(a.beta1, double(s.step))))),
        root(R(1 / std::sqrt(1 - std::pow(a.beta2, double(s.step))))),
        beta1(R(a.beta1)),
        rest1(R(1 - a.beta1)),
        beta2(R(a.beta2)),
        rest2(R(1 - a.beta2)),
        eps(R(a.eps)),
        shrink(a.decoupled ? R(1 - a.lr * s.lr_scale * a.weight_decay) : R(1)),
        decay(a.decoupled ? R(0) : R(a.weight_decay)) {}

  SPILLWAY_BOTH void operator()(R& w, R g, R& m, R& v) const {
    const R gradient = g + decay * w;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * gradient * gradient;
    w = shrink * w - rate * m / (std::sqrt(v) * root + eps);
  }
};

/// PyTorch's RMSprop. Centered, it divides by the gradient's deviation from its own mean; rounding leaves none below zero.
template <class R>
struct rmsprop {
  static constexpr bool counts = false;
  R rate, alpha, rest, eps, decay, momentum;
  bool centered;
  template <class Attrs>
  SPILLWAY_BOTH rmsprop(const Attrs& a, const StepContext& s)
      : rate(R(a.lr * s.lr_scale)),
        alpha(R(a.alpha)),
        rest(R(1 - a.alpha)),
        eps(R(a.eps)),
        decay(R(a.weight_decay)),
        momentum(R(a.momentum)),
        centered(a.centered != 0) {}

  SPILLWAY_BOTH void operator()(R& w, R g, R& square, R& velocity, R& mean) const {
    const R gradient = g + decay * w;
    square = alpha * square + rest * gradient * gradient;
    mean = alpha * mean + rest * gradient;
    const R variance = centered ? square - mean * mean : square;
    velocity = momentum * velocity + gradient / (std::sqrt(variance > 0 ? variance : R(0)) + eps);
    w -= rate * velocity;
  }
};

/// The product of NAdam's momenta up to a step: beta1^step times the product of 1 - 0.5·q^i for i = 1 … step, q = 0.96^decay. Its logarithm
/// is a sum over powers of 0.5, so that no step reads that of the step before. The 64 terms leave less than the rounding of doubles.
SPILLWAY_BOTH inline double product_of_momenta(double beta1, double decay, double step) {
  const double log_q = decay * std::log(0.96);
  double sum = 0, half = 1;
  for (int k = 1; k <= 64; k++) {
    half *= 0.5;
    const double one = std::expm1(k * log_q);
    sum += half / k * (one == 0 ? step : std::exp(k * log_q) * std::expm1(k * step * log_q) / one);
  }
  return std::pow(beta1, step) * std::exp(-sum);
}

/// PyTorch's NAdam.
template <class R>
struct nadam {
  static constexpr bool counts = true;
  R gradient_rate, mean_rate, root, beta1, rest1, beta2, rest2, eps, shrink, decay;
  template <class Attrs>
  SPILLWAY_BOTH nadam(const Attrs& a, const StepContext& s)
      : root(R(1 / std::sqrt(1 - std::pow(a.beta2, double(s.step))))),
        beta1(R(a.beta1)),
        rest1(R(1 - a.beta1)),
        beta2(R(a.beta2)),
        rest2(R(1 - a.beta2)),
        eps(R(a.eps)),
        shrink(a.decoupled ? R(1 - a.lr * s.lr_scale * a.weight_decay) : R(1)),
        decay(a.decoupled ? R(0) : R(a.weight_decay)) {
    const double rate = a.lr * s.lr_scale, product = product_of_momenta(a.beta1, a.momentum_decay, double(s.step));
    const double now = momentum(a, double(s.step)), next = momentum(a, double(s.step + 1));
    gradient_rate = R(rate * (1 - now) / (1 - product));
    mean_rate = R(rate * next / (1 - product * next));
  }
  template <class Attrs>
  SPILLWAY_BOTH static double momentum(const Attrs& a, double step) {
    return a.beta1 * (1 - 0.5 * std::pow(0.96, step * a.momentum_decay));
  }

  SPILLWAY_BOTH void operator()(R& w, R g, R& m, R& v) const {
    const R gradient = g + decay * w;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * gradient * gradient;
    w = shrink * w - (gradient_rate * gradient + mean_rate * m) / (std::sqrt(v) * root + eps);
  }
};

/// Lion: only the sign of an average counts. The sign of 0 is 0, that of NaN is NaN.
template <class R>
struct lion {
  static constexpr bool counts = false;
  R rate, beta1, rest1, beta2, rest2, shrink;
  template <class Attrs>
  SPILLWAY_BOTH lion(const Attrs& a, const StepContext& s)
      : rate(R(a.lr * s.lr_scale)),
        beta1(R(a.beta1)),
        rest1(R(1 - a.beta1)),
        beta2(R(a.beta2)),
        rest2(R(1 - a.beta2)),
        shrink(R(1 - a.lr * s.lr_scale * a.weight_decay)) {}

  SPILLWAY_BOTH void operator()(R& w, R g, R& m) const {
    const R mixed = beta1 * m + rest1 * g;
    w = shrink * w - rate * (mixed > 0 ? R(1) : mixed < 0 ? R(-1) : mixed);
    m = beta2 * m + rest2 * g;
  }
};

/// Any of these in every n-th step, with steps counted accordingly; and an average of the weights, which begins with their first
/// update.
template <class R, template <class> class Rule>
struct steered {
  static constexpr bool counts = Rule<R>::counts;
  Rule<R> rule;
  R share;
  template <class Attrs>
  SPILLWAY_BOTH steered(const Attrs& a, const StepContext& s)
      : rule(a, StepContext{s.step / uint64_t(a.every), s.seed, s.lr_scale}),
        share(s.step == uint64_t(a.every) ? R(1) : R(1 - a.average)) {}

  SPILLWAY_BOTH void follow(R w, R& average) const { average += share * (w - average); }
  SPILLWAY_BOTH void operator()(R& w, R g, R& a, R& average) const { rule(w, g, a), follow(w, average); }
  SPILLWAY_BOTH void operator()(R& w, R g, R& a, R& b, R& average) const { rule(w, g, a, b), follow(w, average); }
  SPILLWAY_BOTH void operator()(R& w, R g, R& a, R& b, R& c, R& average) const { rule(w, g, a, b, c), follow(w, average); }
};

/// The steps from an update to the next: without `every`, one.
template <class Attrs>
SPILLWAY_BOTH auto steps_of(const Attrs& a, int) -> decltype(uint64_t(a.every)) {
  return uint64_t(a.every);
}
template <class Attrs>
SPILLWAY_BOTH uint64_t steps_of(const Attrs&, long) {
  return 1;
}

/// Returns true if a step updates the weights. `updates`, if not null, has the number of this update, or 0 to leave it out; skipped updates
/// are not counted as steps.
template <class Attrs, class R>
SPILLWAY_BOTH bool moves(const Attrs& a, StepContext& s, const R* updates) {
  const uint64_t steps = steps_of(a, 0);
  if (s.step % steps != 0) return false;
  if (!updates) return true;
  s.step = uint64_t(*updates) * steps;
  return s.step > 0;
}

}  // namespace update

/// The operand with the number of the update; 0: there is none.
template <OpKind kind>
constexpr uint32_t UPDATES = [] {
  const char* const name = op_info(uint32_t(kind))->ins[2].name;
  return name && std::string_view(name) == "updates" ? 2u : 0u;
}();

/// The first operand that is a state.
template <OpKind kind>
constexpr uint32_t FIRST_STATE = UPDATES<kind> + (UPDATES<kind> > 0 ? 1u : 2u);

/// How many states an update may keep for a weight.
template <OpKind kind>
constexpr uint32_t STATES = op_info(uint32_t(kind))->max_ins - FIRST_STATE<kind>;

/// The number of a call's update; null: it has none.
template <OpKind kind, class R>
const R* updates_of(const KernelCall& c) {
  return UPDATES<kind> > 0 ? static_cast<const R*>(c.ins[UPDATES<kind>].data) : nullptr;
}

/// The operands of a call that are an update's states, in the order of its entry; 0 for one that is not kept.
template <OpKind kind>
std::array<uint32_t, STATES<kind>> states_of(const KernelCall& c) {
  std::array<uint32_t, STATES<kind>> at{};
  uint32_t next = FIRST_STATE<kind>;
  for (uint32_t i = 0; i < STATES<kind>; i++)
    if (comes(op_info(uint32_t(kind))->ins[FIRST_STATE<kind> + i], c.attrs)) at[i] = next++;
  return at;
}

}  // namespace spillway::ops
