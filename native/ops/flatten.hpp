// Legality of flatten and its gradient: [B,C,H,W] against [B,C*H*W,1,1], both dense.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_flat_sizes(const KernelCall& c, const View& image, const View& flat) {
  if (!is_activation(image) || !is_activation(flat) || !dense_channels_last(image) || !dense_channels_last(flat))
    return refuse(c, "both sides must be dense activations");
  if (image.dims[0] != flat.dims[0] || flat.dims[1] != elements(image) / image.dims[0] || flat.dims[2] != 1 || flat.dims[3] != 1)
    return refuse(c, "the flat side must be [B,C*H*W,1,1]");
  return {};
}

inline Status check_flatten(const KernelCall& c) { return check_flat_sizes(c, c.ins[0], c.outs[0]); }

inline Status check_flatten_bwd(const KernelCall& c) { return check_flat_sizes(c, c.outs[0], c.ins[0]); }

}  // namespace spillway::ops
