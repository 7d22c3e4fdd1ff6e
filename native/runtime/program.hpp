// The tape's calls prepared for one device: kernels (one for all calls that differ only in addresses), and the addresses of each call.
// Invariant: every call's workspace is at least the kernel's; run() looks nothing up and allocates nothing.
#pragma once
#include "runtime/pages.hpp"
#include "runtime/together.hpp"

namespace spillway {

/// A view without an address.
View shape_of(const ViewRecord& r);

class Program {
 public:
  /// Refused when the device lacks a kernel, or a kernel refuses a call's shapes or workspace.
  static Result<Program> prepare(const Tape& tape, const Pages& pages, OpenDevice& device);

  Status run(uint32_t call) { return device_->run(calls_[call]); }
  /// The call of an instruction, with its whole group where it is the first of one, or nothing where the group has run.
  Status run_grouped(uint32_t instruction, uint32_t call);

 private:
  /// A group's calls, ready to be handed over.
  struct Group {
    uint32_t first_instruction;
    std::vector<Addressed> calls;
  };

  Program(const Tape& tape, OpenDevice& device) : tape_(&tape), device_(&device) {}
  Status prepare_calls(const Pages& pages);
  void prepare_groups();

  const Tape* tape_;
  OpenDevice* device_;
  std::vector<PreparedCall> prepared_;  // each once
  std::vector<void*> addresses_;        // of all calls, one after the other
  std::vector<Addressed> calls_;        // by number
  std::vector<Group> groups_;
  std::vector<uint32_t> group_of_;  // by instruction; NONE: none
};

}  // namespace spillway
