// The cuda device's own kernels, run by the host; the reference's where there is none.
#include "test/native/imitation/kernels.hpp"

#include "cuda/kernels/table.hpp"

namespace spillway::imitation {
namespace {

using Functions = cuda::KernelFunctions<cuda::HostExec>;

template <uint32_t wire>
constexpr KernelEntry entry() {
  return {[](const KernelCall& c) -> int64_t {
            const Functions& f = *cuda::functions<cuda::HostExec>(wire);
            return f.check(c).ok() ? f.workspace(c) : -1;
          },
          [](const KernelCall& c) { return cuda::functions<cuda::HostExec>(wire)->check(c); },
          [](const KernelCall& c) {
            const Functions& f = *cuda::functions<cuda::HostExec>(wire);
            if (Status s = f.check(c); !s.ok()) return s;
            if (int64_t(c.workspace_bytes) < f.workspace(c)) return Status::error("the workspace is too small");
            cuda::HostExec exec(c.step);
            f.run(exec, c);
            return Status{};
          }};
}

}  // namespace

const KernelEntry* own_kernel(uint32_t wire) {
  const Functions* f = cuda::functions<cuda::HostExec>(wire);
  if (!f) return nullptr;
  switch (wire) {
#define SPILLWAY_CASE(kind, number)                         \
  case number: {                                            \
    static constexpr KernelEntry of_kind = entry<number>(); \
    return &of_kind;                                        \
  }
    SPILLWAY_OPS(SPILLWAY_CASE)
#undef SPILLWAY_CASE
    default: return nullptr;
  }
}

uint32_t most_together(uint32_t wire) {
  const Functions* f = cuda::functions<cuda::HostExec>(wire);
  return f ? f->together : 1;
}

Status run_together(const KernelCall* calls, uint32_t n) {
  const Functions& f = *cuda::functions<cuda::HostExec>(calls[0].kind);
  for (uint32_t i = 0; i < n; i++)
    if (Status s = f.check(calls[i]); !s.ok()) return s;
  if (int64_t(calls[0].workspace_bytes) < f.workspace(calls[0])) return Status::error("the workspace is too small");
  cuda::HostExec exec(calls[0].step);
  f.run_together(exec, calls, n);
  return {};
}

bool is_library(uint32_t wire) {
  const Functions* f = cuda::functions<cuda::HostExec>(wire);
  return f && f->library;
}

const KernelEntry* kernel(uint32_t wire) {
  const KernelEntry* own = own_kernel(wire);
  return own ? own : ref::kernel(wire);
}

}  // namespace spillway::imitation
