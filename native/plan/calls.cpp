// Calls against the op table: operand counts, ranks, element types, layouts, attributes, workspace.
// In: views that are right by themselves. Out: the first illegal call. The kernels check shapes
// against each other when the session opens.
#include <algorithm>

#include "ops/table.hpp"
#include "plan/checks.hpp"

namespace spillway {
namespace {

bool strides_follow(const ViewRecord& v, const int (&outer_to_inner)[4]) {
  uint64_t stride = 1;
  for (int i = 3; i >= 0; i--) {
    const int d = outer_to_inner[i];
    if (v.dims[d] > 1 && v.strides[d] != stride) return false;
    stride *= v.dims[d];
  }
  return true;
}
bool is_dense(const ViewRecord& v) { return strides_follow(v, {0, 1, 2, 3}); }
bool is_laid(const ViewRecord& v) { return v.rank == 4 && strides_follow(v, {0, 2, 3, 1}); }

bool is_whole(const ViewRecord& v) {
  for (int d = 0; d < 4; d++)
    if (v.origin[d] != 0 || v.extent[d] != v.dims[d]) return false;
  return true;
}

/// For a whole operand of a legal type: a weight in floats is dense; one in the stored type of activations is laid out.
bool lies_well(const OperandInfo& info, const ViewRecord& v, const ops::ElementTypes& types) {
  const bool weight = info.element == Element::weight, laid = info.element == Element::laid || (weight && v.dtype == types.stored());
  const bool dense = info.element != Element::laid && !(weight && ops::is_half(v.dtype));
  return is_whole(v) && ((dense && is_dense(v)) || (laid && is_laid(v)));
}

Status check_operand(const Tape& tape, const OperandInfo& info, uint32_t view, ops::ElementTypes& types) {
  const ViewRecord& v = tape.views[view];
  if (v.buffer == NONE) return refuse("view ", view, " is a template and has no buffer");
  if (!types.takes(info.element, v.dtype)) return refuse("view ", view, " has element type ", name_of(v.dtype));
  if (info.role == Role::data && v.rank != 4) return refuse("view ", view, " has rank ", v.rank, ", not 4");
  if (info.role == Role::data && v.dims[1] > 1 && v.strides[1] != 1) return refuse("view ", view, " is not stored channels-last");
  if (info.role == Role::whole && !lies_well(info, v, types)) return refuse("view ", view, " is not dense and whole");
  return {};
}

Status check_operands(const Tape& tape, const CallRecord& c, const OpInfo& op) {
  const uint32_t* operand = tape.operands.data() + c.first_operand;
  ops::ElementTypes types(tape.float_type);
  for (uint32_t i = 0; i < c.ins; i++)
    if (Status s = check_operand(tape, op.in(i), operand[i], types); !s.ok()) return within(s, "input ", i, " (", op.in(i).name, "): ");
  for (uint32_t o = 0; o < c.outs; o++)
    if (Status s = check_operand(tape, op.out(o), operand[c.ins + o], types); !s.ok())
      return within(s, "output ", o, " (", op.out(o).name, "): ");
  return {};
}

uint64_t end_of(const ViewRecord& v) {
  uint64_t last = 0;
  for (int d = 0; d < 4; d++) last += (v.dims[d] - 1) * v.strides[d];
  return v.offset + (last + 1) * dtype_bytes(v.dtype);
}

Status check_workspace(const Tape& tape, const CallRecord& c) {
  if (c.workspace_view == NONE) return {};
  const ViewRecord& w = tape.views[c.workspace_view];
  if (w.buffer == NONE || w.rank != 1 || !is_dense(w))
    return refuse("its workspace (view ", c.workspace_view, ") is not a contiguous range of bytes");
  if (w.offset % ALIGN_BYTES != 0) return refuse("its workspace starts at ", w.offset, ", which is not a multiple of ", ALIGN_BYTES);
  for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++) {
    const ViewRecord& v = tape.views[tape.operands[c.first_operand + i]];
    if (v.buffer == w.buffer && v.offset < end_of(w) && w.offset < end_of(v)) return refuse("its workspace overlaps operand ", i);
  }
  return {};
}

/// Masks have a number below that of calls, and one size.
using MaskSizes = std::vector<const ViewRecord*>;

Status check_made_mask(const Tape& tape, const CallRecord& c, MaskSizes& sizes) {
  if (c.mask >= tape.calls.size()) return refuse("it makes mask ", c.mask, " of ", tape.calls.size(), " calls");
  if (c.outs == 0) return refuse("it makes a mask, but has no output");
  const ViewRecord& v = tape.views[tape.operands[c.first_operand + c.ins]];
  if (v.rank != 4 || v.extent[1] != 1 || v.dtype == DType::i32 || v.dtype == DType::u8) return refuse("its output is no mask");
  if (uint64_t(v.extent[0]) * v.extent[2] * v.extent[3] > tape.budget_pages * PAGE_BYTES) return refuse("a mask larger than the budget");
  sizes.resize(std::max<size_t>(sizes.size(), c.mask + 1));
  const ViewRecord*& known = sizes[c.mask];
  if (known && !std::equal(v.extent, v.extent + 4, known->extent)) return refuse("mask ", c.mask, " has several sizes");
  known = &v;
  return {};
}

Status check_mask(const Tape& tape, const CallRecord& c, const MaskSizes& sizes) {
  if (c.mask == NONE || c.makes_mask()) return {};
  if (c.mask >= sizes.size() || !sizes[c.mask]) return refuse("no call makes mask ", c.mask);
  if (c.masked >= uint32_t(c.ins) + c.outs) return refuse("it has no operand ", c.masked);
  const ViewRecord& v = tape.views[tape.operands[c.first_operand + c.masked]];
  if (v.rank != 4 || v.extent[0] != sizes[c.mask]->extent[0])
    return refuse("operand ", c.masked, " does not have the images of mask ", c.mask);
  return {};
}

Status check_call(const Tape& tape, const CallRecord& c) {
  const OpInfo* op = op_info(c.kind);
  if (!op) return refuse("unknown operator ", c.kind);
  const double* const attrs = tape.attrs.data() + c.first_attr;
  Status s = ops::check_attrs(*op, attrs, c.attrs);
  if (s.ok()) s = ops::check_counts(*op, attrs, c.ins, c.outs);
  if (s.ok()) s = check_operands(tape, c, *op);
  if (s.ok()) s = check_workspace(tape, c);
  return s.ok() ? s : within(s, op->kind, ": ");
}

}  // namespace

Status check_calls(const Tape& tape) {
  MaskSizes masks;
  const auto each = [&](auto check) -> Status {
    for (size_t i = 0; i < tape.calls.size(); i++)
      if (Status s = check(tape.calls[i]); !s.ok()) return within(s, "call ", i, ": ");
    return {};
  };
  Status s = each([&](const CallRecord& c) { return check_call(tape, c); });
  if (s.ok()) s = each([&](const CallRecord& c) { return c.makes_mask() ? check_made_mask(tape, c, masks) : Status{}; });
  return s.ok() ? each([&](const CallRecord& c) { return check_mask(tape, c, masks); }) : s;
}

}  // namespace spillway
