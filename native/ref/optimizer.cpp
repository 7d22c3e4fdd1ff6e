// Optimizers of the table, in double.
#include "ops/optimizer.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

template <OpKind kind, class Rule, class Attrs>
struct Update {
  template <class T>
  static void run(const KernelCall& c) {
    run<T>(c, std::make_index_sequence<ops::STATES<kind>>());
  }

 private:
  template <class T, size_t... S>
  static void run(const KernelCall& c, std::index_sequence<S...>) {
    const Attrs attrs = Attrs::read(c.attrs);
    StepContext step = *c.step;
    if (!ops::update::moves(attrs, step, ops::updates_of<kind, T>(c))) return;
    const Rule rule(attrs, step);
    const auto states = ops::states_of<kind>(c);
    const Tensor<T> w(c.ins[0]), g(c.ins[1]);
    for (int64_t i = 0; i < ops::elements(c.ins[0]); i++) {
      double weight = double(w[i]), kept[] = {(states[S] ? double(Tensor<T>(c.ins[states[S]])[i]) : 0)...};
      rule(weight, double(g[i]), kept[S]...);
      w[i] = T(weight);
      ((states[S] ? void(Tensor<T>(c.ins[states[S]])[i] = T(kept[S])) : void()), ...);
    }
  }
};

}  // namespace

#define SPILLWAY_UPDATE_ENTRY(kind, Attrs) const KernelEntry kind = entry<Update<OpKind::kind, ops::update::kind<double>, Attrs>>();
SPILLWAY_UPDATES(SPILLWAY_UPDATE_ENTRY)
#undef SPILLWAY_UPDATE_ENTRY
#define SPILLWAY_STEERED_ENTRY(kind, Attrs, own) \
  const KernelEntry kind = entry<Update<OpKind::kind, ops::update::steered<double, ops::update::own>, Attrs>>();
SPILLWAY_STEERED_UPDATES(SPILLWAY_STEERED_ENTRY)
SPILLWAY_SCALED_UPDATES(SPILLWAY_STEERED_ENTRY)
#undef SPILLWAY_STEERED_ENTRY

namespace {

struct MeanOverSteps {
  template <class T>
  static void run(const KernelCall& c) {
    const auto every = uint64_t(MeanOverStepsAttrs::read(c.attrs).every);
    const bool last = c.step->step % every == 0;
    const Tensor<T> sum(c.ins[0]), g(c.ins[1]), y(c.outs[0]);
    for (int64_t i = 0; i < ops::elements(c.ins[0]); i++) {
      const double total = double(sum[i]) + double(g[i]);
      sum[i] = last ? T(0) : T(total);
      y[i] = last ? T(total / double(every)) : g[i];
    }
  }
};

}  // namespace

const KernelEntry mean_over_steps = entry<MeanOverSteps>();

}  // namespace spillway::ref
