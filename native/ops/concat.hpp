// Legality and geometry of joining along channels, of slices of channels and of shuffled channels, and of their gradients.
#pragma once
#include "ops/both.hpp"
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

inline Status check_take_channels(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  const auto a = TakeChannelsAttrs::read(c.attrs);
  if (!is_activation(x) || !is_activation(y) || !same_pixels(x, y)) return refuse(c, "x and y must hold the same pixels");
  if (y.dims[1] != a.count) return refuse(c, "y must hold as many channels as are taken");
  return a.from >= 0 && a.from <= x.dims[1] - a.count ? Status{} : refuse(c, "the channels must lie inside those of x");
}

inline Status check_put_channels(const KernelCall& c) {
  const View &dy = c.ins[0], &dx = c.outs[0];
  const auto a = PutChannelsAttrs::read(c.attrs);
  if (!is_activation(dy) || !is_activation(dx) || !same_pixels(dy, dx)) return refuse(c, "dy and dx must hold the same pixels");
  if (dx.dims[1] != a.channels) return refuse(c, "dx must hold all channels");
  return a.from >= 0 && a.from <= dx.dims[1] - dy.dims[1] ? Status{} : refuse(c, "the channels must lie inside those of dx");
}

inline Status check_shuffle_channels(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  if (!is_activation(x) || !is_activation(y) || !same_box(x, y)) return refuse(c, "both must hold the same pixels and channels");
  return x.dims[1] % ShuffleChannelsAttrs::read(c.attrs).groups == 0 ? Status{} : refuse(c, "the channels must divide into groups");
}

/// The channel of x, of `channels` in `groups`, that is channel `to` of the shuffled one.
SPILLWAY_BOTH inline int64_t shuffled_from(int64_t to, int64_t channels, int64_t groups) {
  return (to % groups) * (channels / groups) + to / groups;
}

}  // namespace spillway::ops
