// The tape's calls made ready for one device: addresses in place of views, kernels prepared.
// Invariant: every call's workspace is at least what its kernel asks for; run() allocates nothing.
#pragma once
#include "runtime/pages.hpp"
#include "runtime/together.hpp"

namespace spillway {

class Program {
 public:
  /// Refused when the device lacks a kernel, or a kernel refuses a call's shapes or workspace.
  static Result<Program> prepare(const Tape& tape, const Pages& pages, OpenDevice& device);

  Status run(uint32_t call, const StepContext& step);
  /// The call of an instruction, with its whole group where it is the first of one, or nothing where the group has run.
  Status run_grouped(uint32_t instruction, uint32_t call, const StepContext& step);

 private:
  /// A group's calls, ready to be handed over.
  struct Group {
    uint32_t first_instruction;
    std::vector<View> operands;
    std::vector<KernelCall> calls;
  };

  void prepare_groups();
  KernelCall kernel_call(const CallRecord& c, const StepContext& step);
  Status prepare_call(const CallRecord& c, const StepContext& step);

  const Tape* tape_ = nullptr;
  OpenDevice* device_ = nullptr;
  std::vector<View> views_;        // by view index
  std::vector<View> operands_;     // of the call at hand, ins then outs
  std::vector<Group> groups_;
  std::vector<uint32_t> group_of_; // by instruction; NONE: none
};

}  // namespace spillway
