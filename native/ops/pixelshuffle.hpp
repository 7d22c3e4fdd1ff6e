// Legality and geometry of pixel shuffles: factor² channels of the coarse side are factor rows and columns of the fine side.
#pragma once
#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// Both sides hold the same images, and all channels.
inline Status check_block_sizes(const KernelCall& c, const View& coarse, const View& fine, int64_t factor) {
  if (!is_activation(coarse) || !is_activation(fine)) return refuse(c, "both sides must be activations");
  if (factor < 1 || factor > 1024) return refuse(c, "factor must be 1 to 1024");
  const bool same_images = coarse.dims[0] == fine.dims[0] && coarse.origin[0] == fine.origin[0];
  const bool all_channels = coarse.origin[1] == 0 && fine.origin[1] == 0 && coarse.dims[1] / (factor * factor) == fine.dims[1] &&
                            coarse.dims[1] % (factor * factor) == 0;
  return same_images && all_channels ? Status{} : refuse(c, "the coarse side must have factor² times the channels of the fine one");
}

/// The coarse side holds the block of each fine pixel.
inline Status check_coarse_holds(const KernelCall& c, const View& coarse, const View& fine, int64_t factor) {
  if (Status s = check_block_sizes(c, coarse, fine, factor); !s.ok()) return s;
  for (const int d : {2, 3})
    if (lower(fine, d) / factor < lower(coarse, d) || (upper(fine, d) - 1) / factor >= upper(coarse, d))
      return refuse(c, "the coarse side must hold the block of each fine pixel");
  return {};
}

/// The fine side holds all pixels of each block.
inline Status check_fine_holds(const KernelCall& c, const View& coarse, const View& fine, int64_t factor) {
  if (Status s = check_block_sizes(c, coarse, fine, factor); !s.ok()) return s;
  for (const int d : {2, 3})
    if (lower(coarse, d) < lower(fine, d) / factor + (lower(fine, d) % factor != 0) || upper(coarse, d) > upper(fine, d) / factor)
      return refuse(c, "the fine side must hold all pixels of each block");
  return {};
}

inline Status check_pixel_shuffle(const KernelCall& c) {
  return check_coarse_holds(c, c.ins[0], c.outs[0], PixelShuffleAttrs::read(c.attrs).factor);
}
inline Status check_pixel_shuffle_bwd(const KernelCall& c) {
  return check_coarse_holds(c, c.outs[0], c.ins[0], PixelShuffleAttrs::read(c.attrs).factor);
}
inline Status check_pixel_unshuffle(const KernelCall& c) {
  return check_fine_holds(c, c.outs[0], c.ins[0], PixelShuffleAttrs::read(c.attrs).factor);
}
inline Status check_pixel_unshuffle_bwd(const KernelCall& c) {
  return check_fine_holds(c, c.ins[0], c.outs[0], PixelShuffleAttrs::read(c.attrs).factor);
}

/// Returns true if the view holds this pixel of the whole image.
SPILLWAY_BOTH inline bool holds_pixel(const int64_t (&lo)[2], const int64_t (&hi)[2], int64_t h, int64_t w) {
  return h >= lo[0] && h < hi[0] && w >= lo[1] && w < hi[1];
}

}  // namespace spillway::ops
