// Legality and geometry of products of matrices of two values, dense and whole. A value is a matrix of the channels of a group and its
// pixels. Worked example: over 0, y(i, j) sums over channels s: a(i, s) is pixel i of channel s, b(s, j) pixel j of channel s.
#pragma once
#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// One group of one image as a matrix: the place of an element, in elements.
struct Matrix {
  int64_t first, row, column;
  SPILLWAY_BOTH int64_t at(int64_t i, int64_t j) const { return first + i * row + j * column; }
  SPILLWAY_BOTH Matrix turned() const { return {first, column, row}; }
};

/// y(i, j) = Σ a(i, s)·b(s, j), for each of `images`·`groups`.
struct ContractPlan {
  ContractAttrs a;
  int64_t images, rows, inner, columns;

  explicit ContractPlan(const KernelCall& c)
      : a(ContractAttrs::read(c.attrs)),
        images(c.ins[0].dims[0]),
        rows(a.over == 0 ? pixels_of(c.ins[0]) : c.ins[0].dims[1] / a.groups),
        inner(a.over == 0 ? c.ins[0].dims[1] / a.groups : pixels_of(c.ins[0])),
        columns(a.over == 1 ? c.ins[1].dims[1] / a.groups : pixels_of(c.ins[1])) {}

  SPILLWAY_BOTH int64_t parts() const { return images * a.groups; }
  /// The matrices of a part: of a, b and y. Channels are neighbours in memory.
  SPILLWAY_BOTH Matrix left(int64_t part) const { return a.over == 0 ? matrix(part, inner, rows, false) : matrix(part, rows, inner, true); }
  SPILLWAY_BOTH Matrix right(int64_t part) const {
    return a.over == 1 ? matrix(part, columns, inner, false) : matrix(part, inner, columns, true);
  }
  SPILLWAY_BOTH Matrix product(int64_t part) const { return matrix(part, rows, columns, true); }

  static int64_t pixels_of(const View& v) { return v.dims[2] * v.dims[3]; }

 private:
  SPILLWAY_BOTH Matrix matrix(int64_t part, int64_t channels, int64_t pixels, bool channels_first) const {
    const int64_t pixel = channels * a.groups, first = part / a.groups * pixels * pixel + part % a.groups * channels;
    return channels_first ? Matrix{first, 1, pixel} : Matrix{first, pixel, 1};
  }
};

inline Status check_contract_sizes(const KernelCall& c, const View& y) {
  const View &a = c.ins[0], &b = c.ins[1];
  const auto attrs = ContractAttrs::read(c.attrs);
  for (const View* const v : {&a, &b, &y})
    if (!is_of_whole_images(*v) || v->dims[0] != a.dims[0] || v->origin[0] != a.origin[0])
      return refuse(c, "a, b and y must be the same whole images, dense");
  if (a.dims[1] % attrs.groups != 0 || b.dims[1] % attrs.groups != 0) return refuse(c, "groups must divide the channels of a and of b");
  const ContractPlan plan(c);
  const int64_t summed = attrs.over == 1 ? ContractPlan::pixels_of(b) : b.dims[1] / attrs.groups;
  if (summed != plan.inner) return refuse(c, "a and b must have equal sizes of the summed axes");
  const bool is_product = y.dims[1] == plan.rows * attrs.groups && (attrs.over == 1 ? y.dims[2] == 1 && y.dims[3] == plan.columns
                                                                                    : y.dims[2] == b.dims[2] && y.dims[3] == b.dims[3]);
  return is_product ? Status{} : refuse(c, "y must have the other axes of a and b");
}

inline Status check_contract(const KernelCall& c) { return check_contract_sizes(c, c.outs[0]); }

inline Status check_contract_bwd(const KernelCall& c) {
  if (Status s = check_contract_sizes(c, c.ins[2]); !s.ok()) return s;
  for (const int i : {0, 1})
    if (!is_of_whole_images(c.outs[i]) || !same_box(c.outs[i], c.ins[i])) return refuse(c, "da must be like a, and db like b");
  return {};
}

}  // namespace spillway::ops
