// Views that differ in their place alone are one shape; calls that agree in operator, attributes, way and shapes are one prepared call.
#include "runtime/program.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "gen/ops.h"

namespace spillway {

View shape_of(const ViewRecord& r) {
  View v;
  v.dtype = r.dtype;
  v.rank = r.rank;
  for (int d = 0; d < 4; d++) {
    v.dims[d] = r.dims[d];
    v.strides[d] = int64_t(r.strides[d]);
    v.origin[d] = r.origin[d];
    v.extent[d] = r.extent[d];
  }
  return v;
}

namespace {

using Key = std::vector<uint64_t>;

/// The shapes of a tape's views, numbered as they first appear.
class Shapes {
 public:
  explicit Shapes(const Tape& tape) {
    for (const ViewRecord& r : tape.views) {
      Key key{uint32_t(r.dtype), r.rank};
      for (int d = 0; d < 4; d++) key.insert(key.end(), {r.dims[d], r.strides[d], r.origin[d], r.extent[d]});
      of_.push_back(known_.emplace(std::move(key), known_.size()).first->second);
    }
  }
  uint64_t of(uint32_t view) const { return of_[view]; }

 private:
  std::map<Key, uint64_t> known_;
  std::vector<uint64_t> of_;
};

Key key_of(const Tape& tape, const CallRecord& c, const Shapes& shapes) {
  Key key{c.kind, c.ins, c.outs, c.way};
  for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++) key.push_back(shapes.of(tape.operands[c.first_operand + i]));
  for (uint32_t i = 0; i < c.attrs; i++) key.push_back(std::bit_cast<uint64_t>(tape.attrs[c.first_attr + i]));
  return key;
}

Result<PreparedCall> prepare_call(const Tape& tape, const CallRecord& c, OpenDevice& device) {
  if (!device.device().has_kernel(c.kind)) return refuse("the device '", device.device().name, "' has no such kernel");
  std::vector<View> views;
  for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++) views.push_back(shape_of(tape.views[tape.operands[c.first_operand + i]]));
  return device.prepare({.kind = c.kind,
                         .ins = views.data(),
                         .n_ins = c.ins,
                         .outs = views.data() + c.ins,
                         .n_outs = c.outs,
                         .attrs = tape.attrs.data() + c.first_attr,
                         .n_attrs = c.attrs,
                         .way = c.way});
}

Status check_workspace(const Tape& tape, const CallRecord& c, const PreparedCall& prepared) {
  const uint64_t given =
      c.workspace_view == NONE ? 0 : tape.views[c.workspace_view].dims[0] * dtype_bytes(tape.views[c.workspace_view].dtype);
  if (prepared.workspace_bytes() <= given) return {};
  return refuse("the kernel needs ", prepared.workspace_bytes(), " bytes of workspace; the plan has ", given);
}

}  // namespace

Status Program::prepare_calls(const Pages& pages) {
  const auto address = [&](uint32_t view) -> void* {
    return view == NONE || tape_->views[view].buffer == NONE ? nullptr : pages.at(tape_->views[view].buffer, tape_->views[view].offset);
  };
  const Shapes shapes(*tape_);
  std::map<Key, size_t> known;
  std::vector<size_t> of;
  for (size_t i = 0; i < tape_->calls.size(); i++) {
    const CallRecord& c = tape_->calls[i];
    const auto [it, is_new] = known.emplace(key_of(*tape_, c, shapes), prepared_.size());
    Status s;
    if (is_new) {
      Result<PreparedCall> made = prepare_call(*tape_, c, *device_);
      if (made.ok())
        prepared_.push_back(std::move(made).value());
      else
        s = made.status();
    }
    if (s.ok()) s = check_workspace(*tape_, c, prepared_[it->second]);
    if (!s.ok()) return within(s, "call ", i, " (", op_info(c.kind)->kind, "): ");
    of.push_back(it->second);
    for (uint32_t k = 0; k < uint32_t(c.ins) + c.outs; k++) addresses_.push_back(address(tape_->operands[c.first_operand + k]));
    addresses_.push_back(address(c.workspace_view));
  }
  std::vector<bool> beside(of.size());
  for (const InstrRecord& i : tape_->instrs)
    if (i.tag == Tag::exchange) beside[i.a] = true;
  void* const* at = addresses_.data();
  for (size_t i = 0; i < of.size(); i++) {
    calls_.push_back(prepared_[of[i]].at(at, beside[i]));
    at += tape_->calls[i].ins + tape_->calls[i].outs + 1;
  }
  return {};
}

Result<Program> Program::prepare(const Tape& tape, const Pages& pages, OpenDevice& device) {
  Program p(tape, device);
  if (Status s = p.prepare_calls(pages); !s.ok()) return s;
  p.prepare_groups();
  return p;
}

void Program::prepare_groups() {
  group_of_.assign(tape_->instrs.size(), NONE);
  for (const CallGroup& together : calls_together(*tape_, device_->device())) {
    Group group{together.first_instruction, {}};
    for (const uint32_t call : together.calls) group.calls.push_back(calls_[call]);
    for (const uint32_t i : together.instructions) group_of_[i] = uint32_t(groups_.size());
    groups_.push_back(std::move(group));
  }
}

Status Program::run_grouped(uint32_t instruction, uint32_t call) {
  if (group_of_[instruction] == NONE) return run(call);
  const Group& group = groups_[group_of_[instruction]];
  return group.first_instruction == instruction ? device_->run_together(group.calls) : Status{};
}

}  // namespace spillway
