// Legality of channels and pixels exchanged: [B,C,H,W] against [B,H·W,1,C], both dense.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_turned_sizes(const KernelCall& c, const View& image, const View& turned) {
  if (!is_of_whole_images(image) || !is_of_whole_images(turned)) return refuse(c, "both sides must be whole images, dense");
  const bool fits = image.dims[0] == turned.dims[0] && image.origin[0] == turned.origin[0] &&
                    turned.dims[1] == image.dims[2] * image.dims[3] && turned.dims[2] == 1 && turned.dims[3] == image.dims[1];
  return fits ? Status{} : refuse(c, "the turned side must be [B,H*W,1,C]");
}

inline Status check_turn_pixels(const KernelCall& c) { return check_turned_sizes(c, c.ins[0], c.outs[0]); }

inline Status check_turn_pixels_bwd(const KernelCall& c) { return check_turned_sizes(c, c.outs[0], c.ins[0]); }

}  // namespace spillway::ops
