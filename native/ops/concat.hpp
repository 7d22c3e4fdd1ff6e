// Legality of joining along channels, and of its gradient, which takes channels out again.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_concat(const KernelCall& c) {
  const View& y = c.outs[0];
  if (!is_activation(y)) return refuse(c, "the output must be an activation");
  int64_t channels = 0;
  for (uint32_t i = 0; i < c.n_ins; i++) {
    if (!is_activation(c.ins[i]) || !same_pixels(c.ins[i], y)) return refuse(c, "all operands must hold the same pixels");
    channels += c.ins[i].dims[1];
  }
  return channels == y.dims[1] ? Status{} : refuse(c, "the channels of the inputs must add up to those of the output");
}

inline Status check_slice_channels(const KernelCall& c) {
  const View &dy = c.ins[0], &dx = c.outs[0];
  const int64_t from = SliceChannelsAttrs::read(c.attrs).from;
  if (!is_activation(dy) || !is_activation(dx) || !same_pixels(dy, dx)) return refuse(c, "dy and dx must hold the same pixels");
  return from >= 0 && from <= dy.dims[1] - dx.dims[1] ? Status{} : refuse(c, "the channels must lie inside those of dy");
}

}  // namespace spillway::ops
