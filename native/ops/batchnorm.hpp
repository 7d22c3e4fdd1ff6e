// Legality of the batch norm operators. Activations agree in their boxes; per-channel values are [C], statistics [2,C].
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

/// The first `tensors` operands and, if `writes_tensor`, the output hold one box; the others are per-channel values.
inline Status check_batchnorm(const KernelCall& c, uint32_t tensors, bool writes_tensor) {
  if (Status s = check_operands(c); !s.ok()) return s;
  const View& x = c.ins[0];
  const auto tensor = [&](const View& v) { return is_activation(v) && same_box(v, x); };
  const auto per_channel = [&](const View& v) { return is_vector(v, x.dims[1]) || is_matrix(v, 2, x.dims[1]); };
  for (uint32_t i = 0; i < c.n_ins; i++)
    if (!(i < tensors ? tensor(c.ins[i]) : per_channel(c.ins[i])))
      return refuse(c, "activations must agree in their boxes, the other inputs be [C], statistics [2,C]");
  for (uint32_t i = 0; i < c.n_outs; i++)
    if (!(writes_tensor ? tensor(c.outs[i]) : per_channel(c.outs[i])))
      return refuse(c, "the outputs must fit the channels of x");
  return {};
}

inline bool is_statistics(const View& v, int64_t channels) { return is_matrix(v, 2, channels) && v.rank == 2; }

inline Status check_bn_stats(const KernelCall& c) {
  if (Status s = check_batchnorm(c, 1, false); !s.ok()) return s;
  return is_statistics(c.outs[0], c.ins[0].dims[1]) ? Status{} : refuse(c, "stats must be [2,C]");
}

inline Status check_bn_apply(const KernelCall& c) {
  if (Status s = check_batchnorm(c, 1, true); !s.ok()) return s;
  return is_statistics(c.ins[1], c.ins[0].dims[1]) ? Status{} : refuse(c, "stats must be [2,C]");
}

inline Status check_bn_bwd_reduce(const KernelCall& c) {
  if (Status s = check_batchnorm(c, 2, false); !s.ok()) return s;
  return is_statistics(c.ins[2], c.ins[0].dims[1]) ? Status{} : refuse(c, "stats must be [2,C]");
}

inline Status check_bn_bwd_data(const KernelCall& c) {
  if (Status s = check_batchnorm(c, 2, true); !s.ok()) return s;
  return is_statistics(c.ins[2], c.ins[0].dims[1]) ? Status{} : refuse(c, "stats must be [2,C]");
}

inline Status check_bn_frozen(const KernelCall& c) { return check_batchnorm(c, 1, true); }
inline Status check_bn_frozen_bwd_data(const KernelCall& c) { return check_batchnorm(c, 1, true); }
inline Status check_bn_frozen_bwd_reduce(const KernelCall& c) { return check_batchnorm(c, 2, false); }

inline Status check_bn_running(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  const int64_t channels = c.ins[1].dims[0];
  if (!is_vector(c.ins[1], channels) || !is_vector(c.ins[2], channels) || !is_statistics(c.ins[0], channels))
    return refuse(c, "stats must be [2,C], mean and variance [C]");
  return {};
}

}  // namespace spillway::ops
