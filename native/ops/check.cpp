// The checks that every operator shares, from the generated op table, and the words of a refusal.
#include "ops/check.hpp"

#include <algorithm>
#include <cstring>

namespace spillway::ops {
namespace {

Element element_of(const OpInfo& op, const KernelCall& c, uint32_t operand) {
  return operand < c.n_ins ? op.in(operand).element : op.out(operand - c.n_ins).element;
}

const View& operand_of(const KernelCall& c, uint32_t operand) { return operand < c.n_ins ? c.ins[operand] : c.outs[operand - c.n_ins]; }

/// A tensor's range in a dimension, as `how` says: s that of the anchor; a all of a value as large as the anchor's; b that of the anchor or
/// one element that stands for all; 1 one element.
bool range_fits(char how, const View& v, const View& anchor, int d) {
  const bool one = v.origin[d] == 0 && v.dims[d] == 1 && v.extent[d] == 1;
  const bool same = v.origin[d] == anchor.origin[d] && v.dims[d] == anchor.dims[d];
  switch (how) {
    case 's':
      return same;
    case 'a':
      return v.origin[d] == 0 && v.dims[d] == v.extent[d] && v.dims[d] == anchor.dims[d];
    case 'b':
      return one || same;
    default:
      return one;
  }
}

constexpr const char* DIMS = "BCHW";

/// Extents that are numbers or the anchor's, in their order: 4C is [4, its channels].
bool dims_fit(const char* dims, const View& v, const View& anchor) {
  if (!is_whole(v)) return false;
  for (int d = 0; d < 4; d++) {
    const char* const dim = *dims ? std::strchr(DIMS, *dims) : nullptr;
    if (v.dims[d] != (dim ? anchor.dims[dim - DIMS] : *dims ? *dims - '0' : 1)) return false;
    if (*dims) dims++;
  }
  return true;
}

bool lies_well(const OperandInfo& o, const KernelCall& c, const View& v, const View& anchor) {
  if (o.role == Role::whole) return *o.fits == '=' ? is_whole(v) && same_dims(v, c.ins[0]) : dims_fit(o.fits, v, anchor);
  if (!is_activation(v)) return false;
  for (int d = 0; d < 4; d++)
    if (!range_fits(o.fits[d], v, anchor, d)) return false;
  return true;
}

std::string box_text(const View& v) {
  std::string dims, place;
  for (uint32_t d = 0; d < std::min<uint32_t>(v.rank, 4); d++) {
    dims += (d ? "," : "") + std::to_string(v.dims[d]);
    place += (d ? "," : "") + std::to_string(v.origin[d]) + "/" + std::to_string(v.extent[d]);
  }
  return "[" + dims + "]" + (v.rank == 4 ? "@" + place : "");
}

}  // namespace

DType float_type(const KernelCall& c) {
  const OpInfo* op = op_info(c.kind);
  DType found = DType::f32;
  for (uint32_t i = c.n_ins + c.n_outs; op && i-- > 0;) {
    const Element element = element_of(*op, c, i);
    const DType dtype = operand_of(c, i).dtype;
    if (element == Element::real || (element == Element::weight && !is_half(dtype))) return dtype;
    if (element != Element::i32 && dtype == DType::f64) found = DType::f64;
  }
  return found;
}

DType stored_type(const KernelCall& c) {
  for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++)
    if (is_half(operand_of(c, i).dtype)) return operand_of(c, i).dtype;
  return float_type(c);
}

uint32_t weight_of(const KernelCall& c) {
  switch (OpKind(c.kind)) {
    case OpKind::conv2d:
    case OpKind::conv2d_relu:
    case OpKind::conv2d_bwd_data:
    case OpKind::conv_transpose2d:
    case OpKind::conv_transpose2d_bwd_data:
    case OpKind::linear:
    case OpKind::linear_bwd_data:
      return 1;
    default:
      return UINT32_MAX;
  }
}

Status check_operands(const KernelCall& c) {
  const OpInfo* op = op_info(c.kind);
  if (!op) return spillway::refuse("no operator has wire number ", c.kind);
  Status s = check_attrs(*op, c.attrs, c.n_attrs);
  if (s.ok()) s = check_counts(*op, c.attrs, c.n_ins, c.n_outs);
  if (!s.ok()) return refuse(c, s.message.c_str());
  const DType real = float_type(c);
  if (real == DType::i32 || is_half(real)) return refuse(c, "operands must be f32 or f64");
  ElementTypes types(real);
  for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++)
    if (!types.takes(element_of(*op, c, i), operand_of(c, i).dtype)) return refuse(c, "wrong element type");
  return {};
}

Status check_by_table(const KernelCall& c) {
  const OpInfo& op = *op_info(c.kind);
  const View& anchor = op.anchor < 0 ? c.outs[0] : c.ins[op.anchor];
  for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++) {
    const OperandInfo& o = i < c.n_ins ? op.in(i) : op.out(i - c.n_ins);
    if (!o.fits) return refuse(c, "the op table does not define the layout of its operands");
    if (!lies_well(o, c, operand_of(c, i), anchor)) return refuse(c, (std::string(o.name) + " has the wrong layout").c_str());
  }
  return {};
}

Status refuse(const KernelCall& c, const char* words) {
  const OpInfo* op = op_info(c.kind);
  std::string words_and_boxes = std::string(op ? op->kind : "?") + ": " + words + " (";
  for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++) words_and_boxes += (i == c.n_ins ? " -> " : i ? ", " : "") + box_text(operand_of(c, i));
  return spillway::refuse(words_and_boxes, ")");
}

}  // namespace spillway::ops
