// Legality of a trained value for each channel or element of an image, and of its gradient.
#pragma once
#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// The place of an element of an image in the parameter.
struct ShiftPlan {
  int64_t elements, channels, height, width;
  ShiftPlan(const KernelCall& c, const View& image)
      : elements(ShiftAttrs::read(c.attrs).elements), channels(image.extent[1]), height(image.extent[2]), width(image.extent[3]) {}
  SPILLWAY_BOTH int64_t at(int64_t channel, int64_t h, int64_t w) const {
    if (elements == 0) return channel;
    return elements == 1 ? (channel * height + h) * width + w : (h * width + w) * channels + channel;
  }
};

inline Status check_shift_sizes(const KernelCall& c, const View& image, const View& p) {
  if (!is_activation(image)) return refuse(c, "x must be an activation");
  const bool fits = ShiftAttrs::read(c.attrs).elements ? is_whole(p) && elements(p) == image.extent[1] * image.extent[2] * image.extent[3]
                                                       : is_vector(p, image.extent[1]);
  return fits ? Status{} : refuse(c, "the parameter must have a number for each channel, or for each element of an image");
}

inline Status check_shift(const KernelCall& c) {
  if (Status s = check_shift_sizes(c, c.ins[0], c.ins[1]); !s.ok()) return s;
  return is_activation(c.outs[0]) && same_box(c.outs[0], c.ins[0]) ? Status{} : refuse(c, "y must be like x");
}

inline Status check_shift_bwd(const KernelCall& c) { return check_shift_sizes(c, c.ins[0], c.outs[0]); }

}  // namespace spillway::ops
