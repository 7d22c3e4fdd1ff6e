// Resolves views to addresses once; a call copies its few operand views side by side and hands them to its kernel.
#include "runtime/program.hpp"

#include <algorithm>

#include "gen/ops.h"

namespace spillway {
namespace {

View resolve(const ViewRecord& r, const Pages& pages) {
  View v;
  v.data = r.buffer == NONE ? nullptr : pages.at(r.buffer, r.offset);
  v.dtype = DType(r.dtype);
  v.rank = r.rank;
  for (int d = 0; d < 4; d++) {
    v.dims[d] = r.dims[d];
    v.strides[d] = int64_t(r.strides[d]);
    v.origin[d] = r.origin[d];
    v.extent[d] = r.extent[d];
  }
  return v;
}

}  // namespace

KernelCall Program::kernel_call(const CallRecord& c, const StepContext& step) {
  for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++) operands_[i] = views_[tape_->operands[c.first_operand + i]];
  KernelCall k;
  k.kind = c.kind;
  k.ins = operands_.data();
  k.n_ins = c.ins;
  k.outs = operands_.data() + c.ins;
  k.n_outs = c.outs;
  k.attrs = tape_->attrs.data() + c.first_attr;
  k.n_attrs = c.attrs;
  if (c.workspace_view != NONE) {
    const View& w = views_[c.workspace_view];
    k.workspace = w.data;
    k.workspace_bytes = size_t(w.dims[0]) * dtype_bytes(w.dtype);
  }
  k.algorithm = Algorithm(c.algorithm);
  k.step = &step;
  return k;
}

Status Program::prepare_call(const CallRecord& c, const StepContext& step) {
  if (!device_->device().has_kernel(c.kind)) return refuse("the device '", device_->device().name, "' has no such kernel");
  const KernelCall k = kernel_call(c, step);
  const int64_t need = device_->workspace(k);
  if (need < 0) return refuse("the device's kernel refuses these shapes");
  if (uint64_t(need) > k.workspace_bytes) return refuse("the kernel asks for ", need, " bytes of workspace, the plan gives ", k.workspace_bytes);
  return device_->prepare(k);
}

Result<Program> Program::prepare(const Tape& tape, const Pages& pages, OpenDevice& device) {
  Program p;
  p.tape_ = &tape;
  p.device_ = &device;
  for (const ViewRecord& v : tape.views) p.views_.push_back(resolve(v, pages));
  size_t most = 0;
  for (const CallRecord& c : tape.calls) most = std::max<size_t>(most, size_t(c.ins) + c.outs);
  p.operands_.resize(most);
  const StepContext step;
  for (size_t i = 0; i < tape.calls.size(); i++)
    if (Status s = p.prepare_call(tape.calls[i], step); !s.ok()) return refuse("call ", i, " (", op_info(tape.calls[i].kind)->kind, "): ", s.message);
  p.prepare_groups();
  return p;
}

void Program::prepare_groups() {
  const StepContext step;
  group_of_.assign(tape_->instrs.size(), NONE);
  for (const CallGroup& together : calls_together(*tape_, device_->device())) {
    Group group{together.first_instruction, {}, {}};
    for (const uint32_t call : together.calls) {
      group.calls.push_back(kernel_call(tape_->calls[call], step));
      const KernelCall& c = group.calls.back();
      group.operands.insert(group.operands.end(), c.ins, c.ins + c.n_ins + c.n_outs);
    }
    const View* at = group.operands.data();
    for (KernelCall& c : group.calls) {
      c.ins = at;
      c.outs = at + c.n_ins;
      at += c.n_ins + c.n_outs;
    }
    for (const uint32_t i : together.instructions) group_of_[i] = uint32_t(groups_.size());
    groups_.push_back(std::move(group));
  }
}

Status Program::run_grouped(uint32_t instruction, uint32_t call, const StepContext& step) {
  if (group_of_[instruction] == NONE) return run(call, step);
  Group& group = groups_[group_of_[instruction]];
  if (group.first_instruction != instruction) return {};
  for (KernelCall& c : group.calls) c.step = &step;
  return device_->run_together(group.calls);
}

Status Program::run(uint32_t call, const StepContext& step) { return device_->run(kernel_call(tape_->calls[call], step)); }

}  // namespace spillway
