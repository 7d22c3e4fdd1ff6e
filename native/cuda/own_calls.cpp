// A call prepared for one of the device's own kernels.
#include "cuda/own_kernels.hpp"
#include "ops/collective.hpp"

namespace spillway::cuda {
namespace {

class Own final : public Ready {
 public:
  explicit Own(const KernelCall& c) : Ready(c), workspace_bytes_(own_functions(c.kind)->workspace(c)) {}
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  /// An exchange with other ranks goes on their lane, which waits for compute and, unless it goes beside, is waited for at once.
  Status run(const Context& context) const override {
    if (!context.ranks()) return run_own(call(), context);
    KernelCall known = call();
    known.step = context.step_here();
    if (!ops::meets_ranks(known.kind)) return run_own(known, context);
    const auto exchanged = [&] { return run_own(known, context, Lane::ranks); };
    return context.waits_later() ? exchanged() : context.in_turn(exchanged);
  }

 private:
  const int64_t workspace_bytes_;
};

}  // namespace

std::unique_ptr<Ready> ready_own(const KernelCall& call) { return std::make_unique<Own>(call); }

}  // namespace spillway::cuda
