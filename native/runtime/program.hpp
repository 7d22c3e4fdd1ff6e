// The tape's calls made ready for one device: addresses in place of views, kernels prepared.
// Invariant: every call's workspace is at least what its kernel asks for; run() allocates nothing.
#pragma once
#include "runtime/pages.hpp"

namespace spillway {

class Program {
 public:
  /// Refused when the device lacks a kernel, or a kernel refuses a call's shapes or workspace.
  static Result<Program> prepare(const Tape& tape, const Pages& pages, OpenDevice& device);

  Status run(uint32_t call, const StepContext& step);

 private:
  KernelCall kernel_call(const CallRecord& c, const StepContext& step);
  Status prepare_call(const CallRecord& c, const StepContext& step);

  const Tape* tape_ = nullptr;
  OpenDevice* device_ = nullptr;
  std::vector<View> views_;        // by view index
  std::vector<View> operands_;     // of the call at hand, ins then outs
};

}  // namespace spillway
