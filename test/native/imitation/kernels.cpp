// The cuda device's own kernels, run by the host; the reference's where there is none.
#include "test/native/imitation/kernels.hpp"

#include "cuda/kernels/table.hpp"

namespace spillway::imitation {
namespace {

using Functions = cuda::KernelFunctions<cuda::HostExec>;

/// One that its functions have checked.
class Own final : public PreparedKernel {
 public:
  Own(const Functions& f, const KernelCall& c) : functions_(f), workspace_bytes_(f.workspace(c)) {}
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const KernelCall& c) override {
    cuda::HostExec exec(c.step);
    functions_.run(exec, c);
  }

 private:
  const Functions& functions_;
  int64_t workspace_bytes_;
};

constexpr KernelEntry OWN{[](const KernelCall& c, uint32_t) -> Result<std::vector<Way>> {
                            const Functions& f = *cuda::functions<cuda::HostExec>(c.kind);
                            if (Status s = f.check(c); !s.ok()) return s;
                            return std::vector{Way{0, true, uint64_t(f.workspace(c)), "own"}};
                          },
                          [](const KernelCall& c) -> Result<std::unique_ptr<PreparedKernel>> {
                            const Functions& f = *cuda::functions<cuda::HostExec>(c.kind);
                            if (Status s = f.check(c); !s.ok()) return s;
                            return std::unique_ptr<PreparedKernel>(std::make_unique<Own>(f, c));
                          }};

}  // namespace

const KernelEntry* own_kernel(uint32_t wire) { return cuda::functions<cuda::HostExec>(wire) ? &OWN : nullptr; }

uint32_t most_together(uint32_t wire) {
  const Functions* f = cuda::functions<cuda::HostExec>(wire);
  return f ? f->together : 1;
}

void run_together(const KernelCall* calls, uint32_t n) {
  cuda::HostExec exec(calls[0].step);
  cuda::functions<cuda::HostExec>(calls[0].kind)->run_together(exec, calls, n);
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
