// One pass over the instructions, with the group that the next call may join.
#include "runtime/together.hpp"

#include <algorithm>

#include "gen/ops.h"

namespace spillway {
namespace {

const ViewRecord& operand(const Tape& tape, const CallRecord& c, uint32_t i) { return tape.views[tape.operands[c.first_operand + i]]; }

bool is_written(const CallRecord& c, uint32_t i) { return i >= c.ins || op_info(c.kind)->in(i).written; }

uint64_t end_of(const ViewRecord& v) {
  uint64_t last = 0;
  for (int d = 0; d < 4; d++) last += (v.dims[d] - 1) * v.strides[d];
  return v.offset + (last + 1) * dtype_bytes(v.dtype);
}

bool overlap(const ViewRecord& a, const ViewRecord& b) { return a.buffer == b.buffer && a.offset < end_of(b) && b.offset < end_of(a); }

/// Returns true if one call touches the result of the other.
bool meet(const Tape& tape, const CallRecord& a, const CallRecord& b) {
  for (uint32_t i = 0; i < uint32_t(a.ins) + a.outs; i++)
    for (uint32_t k = 0; k < uint32_t(b.ins) + b.outs; k++)
      if ((is_written(a, i) || is_written(b, k)) && overlap(operand(tape, a, i), operand(tape, b, k))) return true;
  return false;
}

/// The same operator with as many operands, run in the same way with the same attributes.
bool alike(const Tape& tape, const CallRecord& a, const CallRecord& b) {
  const auto attrs = [&](const CallRecord& c) { return tape.attrs.data() + c.first_attr; };
  return a.kind == b.kind && a.ins == b.ins && a.outs == b.outs && a.way == b.way && std::equal(attrs(a), attrs(a) + a.attrs, attrs(b));
}

class Grouping {
 public:
  Grouping(const Tape& tape, const Device& device) : tape_(tape), device_(device) {}

  void call(uint32_t instruction, uint32_t index) {
    const CallRecord& c = tape_.calls[index];
    if (!joins(c)) close();
    if (device_.most_together(c.kind) < 2) return;
    if (group_.calls.empty()) group_.first_instruction = instruction;
    group_.instructions.push_back(instruction);
    group_.calls.push_back(index);
  }
  void close() {
    if (group_.calls.size() > 1) groups_.push_back(std::move(group_));
    group_ = {};
  }
  std::vector<CallGroup> groups() && { return std::move(groups_); }

 private:
  bool joins(const CallRecord& c) const {
    if (group_.calls.empty() || group_.calls.size() >= device_.most_together(c.kind) || !alike(tape_, tape_.calls[group_.calls.front()], c))
      return false;
    return std::none_of(group_.calls.begin(), group_.calls.end(), [&](uint32_t other) { return meet(tape_, tape_.calls[other], c); });
  }

  const Tape& tape_;
  const Device& device_;
  CallGroup group_;
  std::vector<CallGroup> groups_;
};

}  // namespace

std::vector<CallGroup> calls_together(const Tape& tape, const Device& device) {
  if (!device.run_together) return {};
  Grouping grouping(tape, device);
  for (uint32_t i = 0; i < tape.instrs.size(); i++) {
    const Tag tag = tape.instrs[i].tag;
    if (tag == Tag::call)
      grouping.call(i, tape.instrs[i].a);
    else if (tag == Tag::swap_out || tag == Tag::swap_in || tag == Tag::wait)
      grouping.close();
  }
  grouping.close();
  return std::move(grouping).groups();
}

}  // namespace spillway
