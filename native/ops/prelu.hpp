// Legality of the leaky rectifier with trained slopes, and of its gradients.
#pragma once
#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// Distance between the slopes of two channels: 0 if they share one.
inline int64_t slope_step(const KernelCall& c) { return PreluAttrs::read(c.attrs).shared ? 0 : 1; }

inline Status check_slopes(const KernelCall& c, const View& slope) {
  const View& x = c.ins[0];
  if (!is_activation(x) || x.origin[1] != 0 || x.dims[1] != x.extent[1]) return refuse(c, "x must be an activation with all channels");
  return is_vector(slope, slope_step(c) ? x.dims[1] : 1) ? Status{}
                                                         : refuse(c, "the slope must have a number for each channel, or one if shared");
}

inline Status check_prelu(const KernelCall& c) {
  if (Status s = check_slopes(c, c.ins[1]); !s.ok()) return s;
  return is_activation(c.outs[0]) && same_box(c.outs[0], c.ins[0]) ? Status{} : refuse(c, "y must be like x");
}

inline Status check_prelu_bwd_data(const KernelCall& c) {
  if (Status s = check_slopes(c, c.ins[2]); !s.ok()) return s;
  return same_box(c.ins[1], c.ins[0]) && same_box(c.outs[0], c.ins[0]) ? Status{} : refuse(c, "dy and dx must be like x");
}

inline Status check_prelu_bwd_weights(const KernelCall& c) {
  if (Status s = check_slopes(c, c.outs[0]); !s.ok()) return s;
  return same_box(c.ins[1], c.ins[0]) ? Status{} : refuse(c, "dy must be like x");
}

}  // namespace spillway::ops
