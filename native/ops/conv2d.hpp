// Legality and geometry of the convolution and its two gradients, shared by all devices.
#pragma once
#include "ops/window.hpp"

namespace spillway::ops {

/// Sizes of one convolution call, whichever of its three directions: x [B,C,·,·], y [B,O,·,·], w [O,C/groups,kH,kW].
struct Conv2d {
  int64_t batch, in_channels, out_channels, groups;
  Window window;
  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
};

inline Conv2d conv2d_geometry(const Conv2dAttrs& a, const View& x, const View& y, const View& w) {
  return {y.dims[0],
          x.dims[1],
          y.dims[1],
          a.groups,
          {window_axis(x, y, 2, w.dims[2], a.stride_h, a.pad_top, a.dilation_h),
           window_axis(x, y, 3, w.dims[3], a.stride_w, a.pad_left, a.dilation_w)}};
}

inline Status check_conv2d_sizes(const KernelCall& c, const View& x, const View& y, const View& w, const View* bias) {
  const Conv2dAttrs a = Conv2dAttrs::read(c.attrs);
  if (!is_activation(x) || !is_activation(y) || !dense_channels_last(x) || !dense_channels_last(y))
    return refuse(c, "x and y must be dense activations");
  if (x.origin[1] != 0 || y.origin[1] != 0) return refuse(c, "x and y must hold all channels");
  if (!is_weight(w, x)) return refuse(c, "w must be [O,C/groups,kH,kW], dense or laid out");
  if (a.groups < 1 || x.dims[1] % a.groups != 0 || y.dims[1] % a.groups != 0)
    return refuse(c, "groups must divide the channels of x and y");
  if (w.dims[0] != y.dims[1] || w.dims[1] != x.dims[1] / a.groups) return refuse(c, "w must be [O,C/groups,kH,kW]");
  if (bias && !is_vector(*bias, y.dims[1])) return refuse(c, "the bias must be [O]");
  if (x.dims[0] != y.dims[0] || x.origin[0] != y.origin[0]) return refuse(c, "x and y must hold the same images");
  if (!conv2d_geometry(a, x, y, w).window.legal()) return refuse(c, "x must hold every pixel that the windows of y cover");
  return {};
}

inline Status check_conv2d(const KernelCall& c) {
  return check_conv2d_sizes(c, c.ins[0], c.outs[0], c.ins[1], c.n_ins > 2 ? &c.ins[2] : nullptr);
}

inline Status check_conv2d_bwd_data(const KernelCall& c) { return check_conv2d_sizes(c, c.outs[0], c.ins[0], c.ins[1], nullptr); }

inline Status check_conv2d_bwd_weights(const KernelCall& c) {
  if (!is_whole(c.outs[0])) return refuse(c, "dw must be dense");
  return check_conv2d_sizes(c, c.ins[0], c.ins[1], c.outs[0], c.n_outs > 1 ? &c.outs[1] : nullptr);
}

}  // namespace spillway::ops
