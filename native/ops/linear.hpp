// Legality of the fully connected layer and its gradients: x [B,C,1,1], w [O,C], y [B,O,1,1], all dense.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline bool is_dense_row(const View& v) {
  return is_activation(v) && dense_channels_last(v) && v.dims[2] == 1 && v.dims[3] == 1;
}

inline Status check_linear_sizes(const KernelCall& c, const View& x, const View& y, const View& w, const View* bias) {
  if (!is_dense_row(x) || !is_dense_row(y)) return refuse(c, "x and y must be dense, [B,C,1,1]");
  if (x.dims[0] != y.dims[0] || x.origin[0] != y.origin[0]) return refuse(c, "x and y must hold the same images");
  if (!is_matrix(w, y.dims[1], x.dims[1])) return refuse(c, "w must be [O,C]");
  if (bias && !is_vector(*bias, y.dims[1])) return refuse(c, "the bias must be [O]");
  return {};
}

inline Status check_linear(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  return check_linear_sizes(c, c.ins[0], c.outs[0], c.ins[1], c.n_ins > 2 ? &c.ins[2] : nullptr);
}

inline Status check_linear_bwd_data(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  return check_linear_sizes(c, c.outs[0], c.ins[0], c.ins[1], nullptr);
}

inline Status check_linear_bwd_weights(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  return check_linear_sizes(c, c.ins[0], c.ins[1], c.outs[0], c.n_outs > 1 ? &c.outs[1] : nullptr);
}

}  // namespace spillway::ops
