// Values that stand side by side along C, and the legality of the operators that normalise them as one.
#pragma once
#include "ops/batchnorm.hpp"

namespace spillway::ops {

/// Side by side along C: the first one's channels come first.
struct Parts {
  const View* first;
  uint32_t count;

  const View& operator[](uint32_t i) const { return first[i]; }
  int64_t channels() const {
    int64_t n = 0;
    for (uint32_t i = 0; i < count; i++) n += first[i].dims[1];
    return n;
  }
};

inline bool side_by_side(const Parts& parts, const View& whole) {
  if (!is_activation(whole)) return false;
  for (uint32_t i = 0; i < parts.count; i++)
    if (!is_activation(parts[i]) || !same_pixels(parts[i], whole)) return false;
  return parts.count > 0 && parts.channels() == whole.dims[1];
}

/// Inputs from `first` on.
inline Parts parts_of(const KernelCall& c, uint32_t first) { return {c.ins + first, c.n_ins - first}; }

inline Status check_join_stats(const KernelCall& c) {
  const Parts parts = parts_of(c, 0);
  for (uint32_t i = 0; i < parts.count; i++)
    if (!is_statistics(parts[i], parts[i].dims[1])) return refuse(c, "statistics must be [4,C]");
  return is_statistics(c.outs[0], parts.channels()) ? Status{} : refuse(c, "the channels of the parts must add up to those of stats");
}

/// Statistics at input `stats`, `vectors` values for each channel behind them, parts that together are as `whole`.
inline Status check_joined(const KernelCall& c, const View& whole, uint32_t stats, uint32_t vectors, const Parts& parts) {
  const int64_t channels = whole.dims[1];
  if (!side_by_side(parts, whole)) return refuse(c, "the parts must hold the same pixels, and their channels must add up");
  if (!is_statistics(c.ins[stats], channels)) return refuse(c, "stats must be [4,C]");
  for (uint32_t i = stats + 1; i <= stats + vectors; i++)
    if (!is_vector(c.ins[i], channels)) return refuse(c, "per-channel inputs must be [C]");
  return {};
}

inline Status check_joined_norm(const KernelCall& c) { return check_joined(c, c.outs[0], 0, 2, parts_of(c, 3)); }

inline Status check_joined_norm_bwd_reduce(const KernelCall& c) {
  if (Status s = check_joined(c, c.ins[0], 1, 2, parts_of(c, 4)); !s.ok()) return s;
  const int64_t channels = c.ins[0].dims[1];
  return is_vector(c.outs[0], channels) && is_vector(c.outs[1], channels) ? Status{} : refuse(c, "the outputs must be [C]");
}

inline Status check_joined_norm_bwd_data(const KernelCall& c) {
  const int64_t onto = JoinedNormBwdDataAttrs::read(c.attrs).onto;
  if (onto != 0 && onto != 1) return refuse(c, "onto must be 0 or 1");
  const View &dy = c.ins[0], &more = c.ins[6];
  if (onto && (!is_activation(more) || !same_pixels(more, dy) || more.dims[1] < dy.dims[1]))
    return refuse(c, "the value added to must hold the pixels of dy and at least its channels");
  if (Status s = check_joined(c, dy, 1, 4, parts_of(c, uint32_t(6 + onto))); !s.ok()) return s;
  return is_activation(c.outs[0]) && same_box(dy, c.outs[0]) ? Status{} : refuse(c, "dx must hold the box of dy");
}

}  // namespace spillway::ops
