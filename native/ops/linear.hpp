// Legality of the fully connected layer and its gradients: x [B,C,H,W], w [O,C], y [B,O,H,W], all dense.
// Activations lie channels-last: x is a matrix whose rows are the pixels of all images, and y another of as many.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_linear_sizes(const KernelCall& c, const View& x, const View& y, const View& w, const View* bias) {
  if (!is_activation(x) || !is_activation(y) || !dense_channels_last(x) || !dense_channels_last(y))
    return refuse(c, "x and y must be dense activations");
  if (x.origin[1] != 0 || y.origin[1] != 0) return refuse(c, "x and y must hold all channels");
  if (!same_pixels(x, y)) return refuse(c, "x and y must hold the same pixels");
  if (!is_matrix(w, y.dims[1], x.dims[1])) return refuse(c, "w must be [O,C]");
  if (bias && !is_vector(*bias, y.dims[1])) return refuse(c, "the bias must be [O]");
  return {};
}

inline Status check_linear(const KernelCall& c) {
  return check_linear_sizes(c, c.ins[0], c.outs[0], c.ins[1], c.n_ins > 2 ? &c.ins[2] : nullptr);
}

inline Status check_linear_bwd_data(const KernelCall& c) { return check_linear_sizes(c, c.outs[0], c.ins[0], c.ins[1], nullptr); }

inline Status check_linear_bwd_weights(const KernelCall& c) {
  return check_linear_sizes(c, c.ins[0], c.ins[1], c.outs[0], c.n_outs > 1 ? &c.outs[1] : nullptr);
}

}  // namespace spillway::ops
