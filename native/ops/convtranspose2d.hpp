// Legality and geometry of the transposed convolution and its two gradients, shared by all devices: a convolution in
// reverse. x [B,C,·,·] is the result of that convolution, its windows slide over y [B,O,·,·], and w is
// [C,O/groups,kH,kW]. Windows may leave the view of y on any side: those parts belong to other tiles, or to nothing.
#pragma once
#include "ops/conv2d.hpp"

namespace spillway::ops {

/// The convolution from y to x.
inline Conv2d conv_transpose2d_geometry(const ConvTranspose2dAttrs& a, const View& x, const View& y, const View& w) {
  return {y.dims[0],
          y.dims[1],
          x.dims[1],
          a.groups,
          {window_axis(y, x, 2, w.dims[2], a.stride_h, a.pad_top, a.dilation_h),
           window_axis(y, x, 3, w.dims[3], a.stride_w, a.pad_left, a.dilation_w)}};
}

/// Returns true if x holds the rows whose windows meet those of y, and no others; if there is none, the
/// nearest one.
inline bool holds_meeting_windows(const WindowAxis& a, int64_t x_extent) {
  constexpr int64_t most = int64_t(1) << 30;
  for (const int64_t n : {a.kernel, a.stride, a.dilation})
    if (n < 1 || n > most) return false;
  if (a.pad < 0 || a.pad > most || (a.out_size - 1) * a.stride + a.reach() > most || a.in_size > most) return false;
  const int64_t last = std::min(x_extent - 1, (a.in_hi() - 1 + a.pad) / a.stride);
  const int64_t ends_before = a.in_lo + a.pad - a.reach();  // windows that begin so far from the padded edge end before y
  const int64_t first = std::min(last, ends_before < 0 ? 0 : ends_before / a.stride + 1);
  return a.out_lo == first && a.out_lo + a.out_size == last + 1;
}

inline Status check_conv_transpose2d_sizes(const KernelCall& c, const View& x, const View& y, const View& w, const View* bias) {
  const ConvTranspose2dAttrs a = ConvTranspose2dAttrs::read(c.attrs);
  if (!is_activation(x) || !is_activation(y) || !dense_channels_last(x) || !dense_channels_last(y))
    return refuse(c, "x and y must be dense activations");
  if (x.origin[1] != 0 || y.origin[1] != 0) return refuse(c, "x and y must hold all channels");
  if (!is_weight(w, x)) return refuse(c, "w must be [C,O/groups,kH,kW], dense or laid out");
  if (a.groups < 1 || x.dims[1] % a.groups != 0 || y.dims[1] % a.groups != 0)
    return refuse(c, "groups must divide the channels of x and y");
  if (w.dims[0] != x.dims[1] || w.dims[1] != y.dims[1] / a.groups) return refuse(c, "w must be [C,O/groups,kH,kW]");
  if (bias && !is_vector(*bias, y.dims[1])) return refuse(c, "the bias must be [O]");
  if (x.dims[0] != y.dims[0] || x.origin[0] != y.origin[0]) return refuse(c, "x and y must hold the same images");
  const Window window = conv_transpose2d_geometry(a, x, y, w).window;
  if (!holds_meeting_windows(window.h, x.extent[2]) || !holds_meeting_windows(window.w, x.extent[3]))
    return refuse(c, "x must hold exactly the pixels whose windows meet y");
  return {};
}

inline Status check_conv_transpose2d(const KernelCall& c) {
  return check_conv_transpose2d_sizes(c, c.ins[0], c.outs[0], c.ins[1], c.n_ins > 2 ? &c.ins[2] : nullptr);
}

inline Status check_conv_transpose2d_bwd_data(const KernelCall& c) {
  return check_conv_transpose2d_sizes(c, c.outs[0], c.ins[0], c.ins[1], nullptr);
}

inline Status check_conv_transpose2d_bwd_weights(const KernelCall& c) {
  if (!is_whole(c.outs[0])) return refuse(c, "dw must be dense");
  return check_conv_transpose2d_sizes(c, c.ins[0], c.ins[1], c.outs[0], c.n_outs > 1 ? &c.outs[1] : nullptr);
}

}  // namespace spillway::ops
