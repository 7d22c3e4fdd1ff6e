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
    const Rule rule(Attrs::read(c.attrs), *c.step);
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

}  // namespace spillway::ref
