// The cpu device: f32 and bf16, oneDNN for convolutions and products, own OpenMP kernels for the rest.
// In: a checked call. Out: the same bits each time for one thread count. Invariant: every exception ends
// at the entry as a Status that names the operator and its shapes; a missing operator is a link error.
#pragma once
#include <stdexcept>

#include "ops/check.hpp"
#include "core/bf16.hpp"

namespace spillway::cpu {

#define SPILLWAY_DECLARE(kind, wire) extern const KernelEntry kind;
SPILLWAY_OPS(SPILLWAY_DECLARE)
#undef SPILLWAY_DECLARE

/// OpenMP's thread count belongs to the calling thread: brings it to what set_threads() asked for. Returns it.
int use_threads();

/// Whether the processor multiplies bf16; where it only could imitate that, fp32 is faster.
bool has_bf16();

inline float* floats(const View& v) { return static_cast<float*>(v.data); }

/// An operator that needs neither scratch nor preparation; others hide these members with their own. Those that have
/// more than one way to run add `offers`.
struct PlainKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
  static void prepare(const KernelCall&) {}
};

template <class Op>
bool offers(const KernelCall& c) {
  if constexpr (requires { Op::offers(c); }) return Op::offers(c);
  return c.algorithm == Algorithm::direct;
}

/// Legal shapes, f32 or bf16 where the processor has it, and an algorithm that there is.
template <class Op>
Status check(const KernelCall& c) {
  if (Status s = Op::check(c); !s.ok()) return s;
  if (!offers<Op>(c)) return ops::refuse(c, "the cpu device has no such algorithm for it");
  if (ops::float_type(c) == DType::f64) return ops::refuse(c, "the cpu device computes in f32");
  return ops::is_narrow(c) && !has_bf16() ? ops::refuse(c, "this processor has no bf16 arithmetic (avx512_bf16)") : Status{};
}

/// An operator that is written for both element types of activations is `run<T>`.
template <class Op>
void run(const KernelCall& c) {
  if constexpr (requires { Op::template run<float>(c); }) ops::is_narrow(c) ? Op::template run<Bf16>(c) : Op::template run<float>(c);
  else Op::run(c);
}

/// Runs f, turning an exception of a library into a refusal.
template <class F>
Status guarded(const KernelCall& c, F f) {
  try {
    f();
    return {};
  } catch (const std::exception& e) {
    return ops::refuse(c, e.what());
  }
}

/// An entry from a type with `check`, `run` and what PlainKernel has.
template <class Op>
constexpr KernelEntry entry() {
  return {[](const KernelCall& c) -> int64_t {
            if (!check<Op>(c).ok()) return -1;
            use_threads();
            int64_t bytes = -1;
            return guarded(c, [&] { bytes = Op::workspace(c); }).ok() ? bytes : -1;
          },
          [](const KernelCall& c) {
            if (Status s = check<Op>(c); !s.ok()) return s;
            use_threads();
            return guarded(c, [&] { Op::prepare(c); });
          },
          [](const KernelCall& c) {
            if (Status s = check<Op>(c); !s.ok()) return s;
            use_threads();
            return guarded(c, [&] {
              if (int64_t(c.workspace_bytes) < Op::workspace(c)) throw std::runtime_error("the workspace is too small");
              cpu::run<Op>(c);
            });
          }};
}

}  // namespace spillway::cpu
