// The op table's rules for a call's attributes, counts and element types, for the reader of tapes, the kernels' check and requests
// of single calls. Invariant: attributes come first, because they decide the operands.
#pragma once
#include <cmath>

#include "core/result.hpp"
#include "gen/ops.h"
#include "gen/wire.h"

namespace spillway::ops {

/// Returns true for the 16-bit floats.
constexpr bool is_half(DType t) { return t == DType::bf16 || t == DType::f16; }

/// Returns true if a call with these attributes has the operand.
inline bool comes(const OperandInfo& o, const double* attrs) { return o.when < 0 || attrs[o.when] != 0; }

/// As many as there should be, finite, whole where they count something, and within their limits.
inline Status check_attrs(const OpInfo& op, const double* attrs, uint32_t n) {
  if (op.rest ? n < op.attrs || (n - op.attrs) % op.rest != 0 : n != op.attrs) return refuse(n, " attributes instead of ", op.attrs);
  for (uint32_t i = 0; i < n; i++) {
    const double a = attrs[i];
    if (!std::isfinite(a)) return refuse("attribute ", i, " is not finite");
    if (i < op.attrs && op.attr_kinds[i] == 'i' && (std::abs(a) > 0x1p53 || a != std::floor(a)))
      return refuse("attribute ", i, " (", a, ") is not an integer");
  }
  for (int i = 0; i < op.n_limits; i++) {
    const AttrLimit& l = op.limits[i];
    const uint32_t first = uint32_t(l.attr), step = first < op.attrs ? n : op.rest;
    for (uint32_t at = first; at < n; at += step)
      if (const double a = attrs[at]; !(a >= l.least && a <= l.most && a > l.above && a < l.below))
        return refuse("attribute ", at, " (", a, ") is outside its limits");
  }
  return {};
}

/// In: attributes that fit.
inline Status check_counts(const OpInfo& op, const double* attrs, uint32_t ins, uint32_t outs) {
  uint32_t left_out = 0, chosen = 0;
  for (const OperandInfo& o : op.ins) chosen += o.when >= 0, left_out += !comes(o, attrs);
  const bool fits = chosen > 0 ? ins + left_out == op.max_ins : ins >= op.min_ins && (op.max_ins == VARIADIC || ins <= op.max_ins);
  if (!fits) return refuse(ins, " inputs");
  const bool matches = op.max_outs == VARIADIC ? outs == ins : outs <= op.max_outs;
  return outs >= op.min_outs && matches ? Status{} : refuse(outs, " outputs");
}

/// The element types of a call's operands, one after the other. In: the float type of operands that are
/// not narrow.
class ElementTypes {
 public:
  explicit ElementTypes(DType real) : real_(real), alike_(real) {}
  bool takes(Element element, DType dtype) {
    if (element == Element::real) return dtype == real_;
    if (element == Element::i32) return dtype == DType::i32;
    if (element == Element::bf16) return dtype == DType::bf16;
    if (element == Element::f16) return dtype == DType::f16;
    if (element == Element::u8) return dtype == DType::u8;
    if (element == Element::weight) return dtype == real_ || (is_half(dtype) && dtype == stored());
    if (first_) alike_ = dtype;
    first_ = false;
    return dtype == alike_ && (dtype == real_ || is_half(dtype) || (element == Element::any && dtype == DType::i32));
  }

  /// How activations are stored, as far as is known.
  DType stored() const { return alike_; }

 private:
  DType real_, alike_;  // of those operands that may be of several types
  bool first_ = true;
};

}  // namespace spillway::ops
