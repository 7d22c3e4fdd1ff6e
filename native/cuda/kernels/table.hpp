// All kernels of the cuda device, and the operators that have none. In: the op table. Invariant: an operator has a kernel or
// is in GAPS, never both. The compiler reports an added operator that is in neither.
#pragma once
#include <array>
#include <string_view>

#include "cuda/kernels/all.hpp"

namespace spillway::cuda {

/// By name, so that an operator may be listed before the op table of this build has it.
constexpr std::array<std::string_view, 0> GAPS{};

constexpr bool is_gap(std::string_view kind) {
  for (const std::string_view gap : GAPS)
    if (gap == kind) return true;
  return false;
}

#define SPILLWAY_DECIDED(kind, wire) \
  static_assert(Kernel<OpKind::kind>::missing == is_gap(#kind), "give " #kind " a kernel in native/cuda/kernels, or a line in GAPS");
SPILLWAY_OPS(SPILLWAY_DECIDED)
#undef SPILLWAY_DECIDED

/// One operator on one Exec. `library`: cuDNN or cuBLAS should run it if it can. `run_together`: it runs a number of calls at
/// once.
template <class Exec>
struct KernelFunctions {
  Status (*check)(const KernelCall&);
  int64_t (*workspace)(const KernelCall&);
  void (*run)(Exec&, const KernelCall&);
  bool library;
  uint32_t together;
  void (*run_together)(Exec&, const KernelCall*, uint32_t);
};

template <class Exec, class K>
constexpr auto run_together_of() -> void (*)(Exec&, const KernelCall*, uint32_t) {
  if constexpr (K::together > 1)
    return K::template run_together<Exec>;
  else
    return nullptr;
}

/// Returns true if the op table allows 16-bit activations.
constexpr bool may_be_half(OpKind kind) {
  for (const OpInfo& op : OP_TABLE) {
    if (op.wire != uint16_t(kind)) continue;
    for (const auto* operands : {op.ins, op.outs})
      for (int i = 0; i < (operands == op.ins ? MAX_DECLARED_INS : MAX_DECLARED_OUTS); i++)
        if (operands[i].name && operands[i].element != Element::real && operands[i].element != Element::i32) return true;
  }
  return false;
}

/// The stored type of a checked call, taken from its activations.
template <class Exec, OpKind kind>
void run_stored(Exec& exec, const KernelCall& c) {
  if constexpr (may_be_half(kind))
    with_stored(ops::stored_type(c), [&](auto t) { Kernel<kind>::template run<decltype(t)>(exec, c); });
  else
    Kernel<kind>::template run<float>(exec, c);
}

template <class Exec, OpKind kind>
const KernelFunctions<Exec>* functions_of() {
  if constexpr (Kernel<kind>::missing)
    return nullptr;
  else {
    using K = Kernel<kind>;
    static constexpr KernelFunctions<Exec> of_kind{check_call<K>, K::workspace, run_stored<Exec, kind>,
                                                   K::library,    K::together,  run_together_of<Exec, K>()};
    return &of_kind;
  }
}

/// Null for gaps.
template <class Exec>
const KernelFunctions<Exec>* functions(uint32_t wire) {
  switch (wire) {
#define SPILLWAY_CASE(kind, number) \
  case number:                      \
    return functions_of<Exec, OpKind::kind>();
    SPILLWAY_OPS(SPILLWAY_CASE)
#undef SPILLWAY_CASE
    default:
      return nullptr;
  }
}

}  // namespace spillway::cuda
