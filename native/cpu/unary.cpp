// Activations without parameters and their gradients, from the table; in place or not.
#include "ops/unary.hpp"

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

// Loops use a copy of the function: one that a store might change would not be vectorised.
template <class F>
struct Unary : PlainKernel {
  static void run(const KernelCall& c) {
    ops::with_unary<F>(c.attrs, [&c](auto f) {
      each_run<2>(
          {&c.outs[0], &c.ins[0]},
          [f](Pointers<2> at, int64_t n) {
            float *const y = at[0], *const x = at[1];
            const auto function = f;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] = function.value(x[i]);
          },
          outside_of(c));
    });
  }
};

template <class F>
struct UnaryBackward : PlainKernel {
  static void run(const KernelCall& c) {
    ops::with_unary<F>(c.attrs, [&c](auto f) {
      each_run<3>(
          {&c.outs[0], &c.ins[0], &c.ins[1]},
          [f](Pointers<3> at, int64_t n) {
            float *const dx = at[0], *const value = at[1], *const dy = at[2];
            const auto function = f;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) dx[i] = function.gradient(value[i], dy[i]);
          },
          outside_of(c));
    });
  }
};

}  // namespace

#define SPILLWAY_UNARY_ENTRY(kind)                           \
  const KernelEntry kind = entry<Unary<ops::unary::kind>>(); \
  const KernelEntry kind##_bwd = entry<UnaryBackward<ops::unary::kind>>();
SPILLWAY_UNARY(SPILLWAY_UNARY_ENTRY)
#undef SPILLWAY_UNARY_ENTRY

}  // namespace spillway::cpu
