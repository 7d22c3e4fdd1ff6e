// Legality of the batch norm operators. Activations agree in their boxes; per-channel values are [C], statistics [2,C].
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline bool is_statistics(const View& v, int64_t channels) { return v.rank == 2 && is_matrix(v, 2, channels); }

/// The first `tensors` inputs hold one box, the others are [C] but for statistics at input `stats` (-1: none). The output
/// is a box like them if `writes_box`, otherwise [C].
inline Status check_batchnorm(const KernelCall& c, uint32_t tensors, int stats, bool writes_box) {
  if (Status s = check_operands(c); !s.ok()) return s;
  const View& x = c.ins[0];
  const int64_t channels = x.dims[1];
  const auto box = [&](const View& v) { return is_activation(v) && same_box(v, x); };
  for (uint32_t i = 0; i < tensors; i++)
    if (!box(c.ins[i])) return refuse(c, "the activations must hold one box");
  for (uint32_t i = tensors; i < c.n_ins; i++)
    if (!(int(i) == stats ? is_statistics(c.ins[i], channels) : is_vector(c.ins[i], channels)))
      return refuse(c, "per-channel inputs must be [C], statistics [2,C]");
  for (uint32_t i = 0; i < c.n_outs; i++)
    if (!(writes_box ? box(c.outs[i]) : is_vector(c.outs[i], channels)))
      return refuse(c, writes_box ? "the output must hold the box of the inputs" : "the outputs must be [C]");
  return {};
}

inline Status check_bn_stats(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  const View& x = c.ins[0];
  return is_activation(x) && is_statistics(c.outs[0], x.dims[1]) ? Status{} : refuse(c, "stats must be [2,C]");
}

inline Status check_bn_apply(const KernelCall& c) { return check_batchnorm(c, 1, 1, true); }
inline Status check_bn_bwd_reduce(const KernelCall& c) { return check_batchnorm(c, 2, 2, false); }
inline Status check_bn_bwd_data(const KernelCall& c) { return check_batchnorm(c, 2, 2, true); }
inline Status check_bn_frozen(const KernelCall& c) { return check_batchnorm(c, 1, -1, true); }
inline Status check_bn_frozen_bwd_data(const KernelCall& c) { return check_batchnorm(c, 1, -1, true); }
inline Status check_bn_frozen_bwd_reduce(const KernelCall& c) { return check_batchnorm(c, 2, -1, false); }

inline Status check_bn_running(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  const int64_t channels = c.ins[1].dims[0];
  if (!is_vector(c.ins[1], channels) || !is_vector(c.ins[2], channels) || !is_statistics(c.ins[0], channels))
    return refuse(c, "stats must be [2,C], mean and variance [C]");
  return {};
}

}  // namespace spillway::ops
