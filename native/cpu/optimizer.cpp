// Optimizers of the table. There is one loop for each choice of state, because a test for each element would prevent
// vectorisation.
#include "ops/optimizer.hpp"

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

/// A state that is not kept.
struct Forgotten {
  float value = 0;
};
template <uint32_t operand, size_t N>
decltype(auto) state(const Pointers<N>& at, int64_t i, Forgotten&& none = {}) {
  if constexpr (operand > 0)
    return (at[operand][i]);
  else
    return (none.value);
}

template <OpKind kind, class Rule, class Attrs>
struct Update : PlainKernel {
  static void run(const KernelCall& c) {
    StepContext step = *c.step;
    if (!ops::update::moves(Attrs::read(c.attrs), step, ops::updates_of<kind, float>(c))) return;
    uint32_t kept = 0;
    for (uint32_t i = 0; const uint32_t operand : ops::states_of<kind>(c)) kept |= uint32_t(operand > 0) << i++;
    choose<0>(c, step, kept, std::make_index_sequence<ops::STATES<kind>>());
  }

 private:
  static constexpr const OpInfo& OP = *op_info(uint32_t(kind));
  static constexpr uint32_t bit(uint32_t kept, size_t state) { return kept >> state & 1; }
  /// The place of a state among the weight, its gradient and the kept states; 0 if it is not kept.
  static constexpr uint32_t operand(uint32_t kept, size_t state) {
    return bit(kept, state) ? 2 + uint32_t(std::popcount(kept & ((1u << state) - 1))) : 0;
  }

  template <uint32_t kept, size_t... S>
  static void choose(const KernelCall& c, const StepContext& step, uint32_t wanted, std::index_sequence<S...> states) {
    if constexpr (((bit(kept, S) || OP.ins[ops::FIRST_STATE<kind> + S].when >= 0) && ...))
      if (kept == wanted) return loop<kept>(c, step, states);
    if constexpr (kept + 1 < 1u << sizeof...(S)) choose<kept + 1>(c, step, wanted, states);
  }

  template <uint32_t kept, size_t... S>
  static void loop(const KernelCall& c, const StepContext& step, std::index_sequence<S...>) {
    constexpr size_t operands = 2 + std::popcount(kept);
    Views<operands> views;
    for (size_t i = 0; i < operands; i++) views[i] = &c.ins[i < 2 ? i : i - 2 + ops::FIRST_STATE<kind>];
    const Rule rule(Attrs::read(c.attrs), step);
    each_chunk<operands>(views, [rule](const Pointers<operands>& at, int64_t n) {
      const Rule own = rule;
      const Pointers<operands> to = at;
#pragma omp simd
      for (int64_t i = 0; i < n; i++) own(to[0][i], to[1][i], state<operand(kept, S)>(to, i)...);
    });
  }
};

}  // namespace

#define SPILLWAY_UPDATE_ENTRY(kind, Attrs) const KernelEntry kind = entry<Update<OpKind::kind, ops::update::kind<float>, Attrs>>();
SPILLWAY_UPDATES(SPILLWAY_UPDATE_ENTRY)
#undef SPILLWAY_UPDATE_ENTRY
#define SPILLWAY_STEERED_ENTRY(kind, Attrs, own) \
  const KernelEntry kind = entry<Update<OpKind::kind, ops::update::steered<float, ops::update::own>, Attrs>>();
SPILLWAY_STEERED_UPDATES(SPILLWAY_STEERED_ENTRY)
SPILLWAY_SCALED_UPDATES(SPILLWAY_STEERED_ENTRY)
#undef SPILLWAY_STEERED_ENTRY

namespace {

struct MeanOverSteps : PlainKernel {
  static void run(const KernelCall& c) {
    const auto every = uint64_t(MeanOverStepsAttrs::read(c.attrs).every);
    const Views<3> views{&c.ins[0], &c.ins[1], &c.outs[0]};
    if (c.step->step % every == 0)
      each_chunk<3>(views, [every = float(every)](Pointers<3> at, int64_t n) {
        float *const sum = at[0], *const g = at[1], *const y = at[2];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
          y[i] = (sum[i] + g[i]) / every;
          sum[i] = 0;
        }
      });
    else
      each_chunk<3>(views, [](Pointers<3> at, int64_t n) {
        float *const sum = at[0], *const g = at[1], *const y = at[2];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
          sum[i] += g[i];
          y[i] = g[i];
        }
      });
  }
};

}  // namespace

const KernelEntry mean_over_steps = entry<MeanOverSteps>();

}  // namespace spillway::cpu
