// Batch norm, sum and rectifier in one: the sign bit of an element, and the rules of legal calls.
#pragma once
#include "ops/batchnorm.hpp"

namespace spillway::ops {

/// Channel c of a pixel is bit c % 32 of its word c / 32.
constexpr int64_t SIGNS_PER_WORD = 32;
constexpr int64_t sign_words(int64_t channels) { return (channels + SIGNS_PER_WORD - 1) / SIGNS_PER_WORD; }

inline bool are_signs(const View& signs, const View& of) {
  return is_activation(signs) && same_pixels(signs, of) && signs.dims[1] == sign_words(of.dims[1]) && signs.origin[1] == 0;
}

/// Inputs 0 and 1 hold one box, `signs` those of its elements, input `stats` statistics, and all behind it are [C].
inline Status check_residual(const KernelCall& c, const View& signs, uint32_t stats) {
  const View& x = c.ins[0];
  if (!is_activation(x) || !is_activation(c.ins[1]) || !same_box(x, c.ins[1])) return refuse(c, "the activations must hold one box");
  if (!are_signs(signs, x)) return refuse(c, "signs must hold the pixels of x, a bit for each channel, 32 to a word");
  if (!is_statistics(c.ins[stats], x.dims[1])) return refuse(c, "stats must be [4,C]");
  for (uint32_t i = stats + 1; i < c.n_ins; i++)
    if (!is_vector(c.ins[i], x.dims[1])) return refuse(c, "per-channel inputs must be [C]");
  return {};
}

inline Status check_bn_add_relu_apply(const KernelCall& c) {
  if (Status s = check_residual(c, c.outs[1], 2); !s.ok()) return s;
  return is_activation(c.outs[0]) && same_box(c.outs[0], c.ins[0]) ? Status{} : refuse(c, "y must hold the box of x");
}

inline Status check_bn_add_relu_bwd_reduce(const KernelCall& c) {
  if (Status s = check_residual(c, c.ins[2], 3); !s.ok()) return s;
  const int64_t channels = c.ins[0].dims[1];
  return is_vector(c.outs[0], channels) && is_vector(c.outs[1], channels) ? Status{} : refuse(c, "the outputs must be [C]");
}

inline Status check_bn_add_relu_bwd_data(const KernelCall& c) {
  if (Status s = check_residual(c, c.ins[2], 3); !s.ok()) return s;
  for (uint32_t i = 0; i < 2; i++)
    if (!is_activation(c.outs[i]) || !same_box(c.outs[i], c.ins[0])) return refuse(c, "the gradients must hold the box of x");
  return {};
}

}  // namespace spillway::ops
