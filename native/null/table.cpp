// The null device: every check of the real one and its workspace, no arithmetic. Plans, tapes and the interpreter run
// on it at any size without touching a value. Built without the cpu device it asks for no workspace.
#include "ref/kernels.hpp"

namespace spillway::null {
namespace {

/// The kernel whose scratch plans count with.
const KernelEntry& real(const KernelCall& c) {
#ifdef SPILLWAY_WITH_CPU
  if (ops::float_type(c) != DType::f64) return *cpu::kernel(c.kind);
#endif
  return *ref::kernel(c.kind);
}

class Nothing final : public PreparedKernel {
 public:
  explicit Nothing(int64_t bytes) : bytes_(bytes) {}
  int64_t workspace_bytes() const override { return bytes_; }
  void run(const KernelCall&) override {}

 private:
  int64_t bytes_;
};

constexpr KernelEntry ENTRY{[](const KernelCall& c, uint32_t most) { return real(c).ways(c, most); },
                            [](const KernelCall& c) -> Result<std::unique_ptr<PreparedKernel>> {
                              const auto made = real(c).prepare(c);
                              if (!made.ok()) return made.status();
                              return std::unique_ptr<PreparedKernel>(std::make_unique<Nothing>(made.value()->workspace_bytes()));
                            }};

}  // namespace

const KernelEntry* kernel(uint32_t wire) { return ref::kernel(wire) ? &ENTRY : nullptr; }

}  // namespace spillway::null
