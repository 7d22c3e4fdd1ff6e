// Optimizers of the table, for many tensors in one go. The step and the factor of the learning rate
// are read when the items run: a graph that is replayed takes the next step. An item owns an element of all tensors laid end to end.
// Worked example: tensors of 64, 10 and 10 elements: `from` is 0 64 74 84; item 70 is element 6 of the second.
#pragma once
#include <algorithm>
#include <utility>

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
  bool has_room(const KernelCall& c) const {
    return count < MOST_TENSORS && int64_t(from[count]) + ops::elements(c.ins[0]) < MOST_ELEMENTS;
  }

  SPILLWAY_BOTH uint32_t tensor_of(uint32_t item) const {
    uint32_t lo = 0, hi = count;
    while (hi - lo > 1) {
      const uint32_t middle = (lo + hi) / 2;
      if (from[middle] <= item)
        lo = middle;
      else
        hi = middle;
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

/// The operand of each state of the entry in a call; 0: none.
template <OpKind kind>
struct StatesAt {
  uint32_t operand[ops::STATES<kind>];
  explicit StatesAt(const KernelCall& c) {
    const auto found = ops::states_of<kind>(c);
    std::copy(found.begin(), found.end(), operand);
  }
};

/// A rule at the step that it is when the items run: made by each of them, or where that takes long by one before them.
template <class Rule, class Attrs>
struct RuleOfStep {
  Attrs attrs;
  const StepContext* step;
  const float* updates;
  const Rule* made;
  /// Returns true if the step updates the weights, as `own` counts it then.
  SPILLWAY_BOTH bool moves(StepContext& own) const {
    own = *step;
    return ops::update::moves(attrs, own, updates);
  }
  SPILLWAY_BOTH Rule get(const StepContext& own) const { return Rule::counts ? *made : Rule(attrs, own); }
};

template <OpKind kind, class Rule, class Attrs>
struct Update : OwnKernel {
  static constexpr uint32_t together = MOST_TENSORS;
  static int64_t workspace(const KernelCall&) { return Rule::counts ? int64_t(sizeof(Rule)) : 0; }
  template <class, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    run_together(exec, &c, 1);
  }
  /// One launch for all calls that read the same number of the update.
  template <class Exec>
  static void run_together(Exec& exec, const KernelCall* calls, uint32_t n) {
    const auto updates = [&](uint32_t call) { return ops::updates_of<kind, float>(calls[call]); };
    for (uint32_t first = 0, end; first < n; first = end) {
      for (end = first + 1; end < n && updates(end) == updates(first);) end++;
      update(exec, calls + first, end - first, std::make_index_sequence<ops::STATES<kind>>());
    }
  }
  template <class Exec, size_t... S>
  static void update(Exec& exec, const KernelCall* calls, uint32_t n, std::index_sequence<S...>) {
    Rule* const made = static_cast<Rule*>(calls[0].workspace);
    const RuleOfStep<Rule, Attrs> rule{Attrs::read(calls[0].attrs), exec.step(), ops::updates_of<kind, float>(calls[0]), made};
    if (Rule::counts)
      exec.each(1, [=] SPILLWAY_BOTH(uint32_t) {
        StepContext own;
        if (rule.moves(own)) *made = Rule(rule.attrs, own);
      });
    const StatesAt<kind> at(calls[0]);
    each_of_tensors<ops::FIRST_STATE<kind> + sizeof...(S)>(exec, calls, n, [=] SPILLWAY_BOTH(float* const* arrays, uint32_t i) {
      StepContext own;
      if (!rule.moves(own)) return;
      float none[sizeof...(S)] = {};
      rule.get(own)(arrays[0][i], arrays[1][i], (at.operand[S] ? arrays[at.operand[S]][i] : none[S])...);
    });
  }
};

#define SPILLWAY_UPDATE_KERNEL(kind, Attrs) \
  template <>                               \
  struct Kernel<OpKind::kind> : Update<OpKind::kind, ops::update::kind<float>, Attrs> {};
SPILLWAY_UPDATES(SPILLWAY_UPDATE_KERNEL)
#undef SPILLWAY_UPDATE_KERNEL
#define SPILLWAY_STEERED_KERNEL(kind, Attrs, own) \
  template <>                                     \
  struct Kernel<OpKind::kind> : Update<OpKind::kind, ops::update::steered<float, ops::update::own>, Attrs> {};
SPILLWAY_STEERED_UPDATES(SPILLWAY_STEERED_KERNEL)
SPILLWAY_SCALED_UPDATES(SPILLWAY_STEERED_KERNEL)
#undef SPILLWAY_STEERED_KERNEL

template <>
struct Kernel<OpKind::mean_over_steps> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto every = uint64_t(MeanOverStepsAttrs::read(c.attrs).every);
    const StepContext* const step = exec.step();
    float *const sum = floats(c.ins[0]), *const g = floats(c.ins[1]), *const y = floats(c.outs[0]);
    exec.each(ops::elements(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const bool last = step->step % every == 0;
      const float gradient = g[i], total = sum[i] + gradient;
      sum[i] = last ? 0 : total;
      y[i] = last ? total / float(every) : gradient;
    });
  }
};

}  // namespace spillway::cuda
