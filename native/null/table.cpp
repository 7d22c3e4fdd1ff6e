// The null device: every check of the real one and its workspace, no arithmetic. Plans, tapes and the interpreter run
// on it at any size without touching a value. Built without the cpu device it asks for no workspace.
#include "ref/kernels.hpp"

namespace spillway::null {
namespace {

int64_t workspace_of(uint32_t wire, const KernelCall& c) {
#ifdef SPILLWAY_WITH_CPU
  if (ops::float_type(c) != DType::f64) return cpu::kernel(wire)->workspace_bytes(c);
#endif
  return ref::kernel(wire)->workspace_bytes(c);
}

template <uint32_t wire>
constexpr KernelEntry entry() {
  constexpr auto check = [](const KernelCall& c) {
    Status s = ref::kernel(wire)->prepare(c);
    const bool refused = s.ok() && c.algorithm != Algorithm::direct && workspace_of(wire, c) < 0;
    return refused ? ops::refuse(c, "there is no such algorithm for it") : s;
  };
  return {[](const KernelCall& c) { return workspace_of(wire, c); }, check, check};
}

}  // namespace

const KernelEntry* kernel(uint32_t wire) {
  switch (wire) {
#define SPILLWAY_CASE(kind, number)                    \
  case number: {                                       \
    static constexpr KernelEntry kind = entry<number>(); \
    return &kind;                                      \
  }
    SPILLWAY_OPS(SPILLWAY_CASE)
#undef SPILLWAY_CASE
    default: return nullptr;
  }
}

}  // namespace spillway::null
