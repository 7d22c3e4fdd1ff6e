// A call prepared for one of the device's own kernels.
#include "cuda/own_kernels.hpp"

namespace spillway::cuda {
namespace {

class Own final : public Ready {
 public:
  explicit Own(const KernelCall& c) : Ready(c), workspace_bytes_(own_functions(c.kind)->workspace(c)) {}
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  Status run(const Context& context) const override { return run_own(call(), context); }

 private:
  const int64_t workspace_bytes_;
};

}  // namespace

std::unique_ptr<Ready> ready_own(const KernelCall& call) { return std::make_unique<Own>(call); }

}  // namespace spillway::cuda
