// Legality of the batch norm operators. Activations agree in their boxes; per-channel values are [C], statistics [4,C].
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

/// Statistics of C channels: rows mean, M2, and what storing these rounded off. Kept that exactly, the statistics of tiles
/// merge to the bits of the untiled ones in single precision too, and so no activation's sign depends on the tiling.
template <class T>
class Statistics {
 public:
  explicit Statistics(const View& v) : data_(static_cast<T*>(v.data)), channels_(v.dims[1]) {}
  double mean(int64_t c) const { return double(data_[c]) + double(data_[2 * channels_ + c]); }
  double squares(int64_t c) const { return double(data_[channels_ + c]) + double(data_[3 * channels_ + c]); }
  void put(int64_t c, double mean, double squares) const {
    data_[c] = T(mean);
    data_[channels_ + c] = T(squares);
    data_[2 * channels_ + c] = T(mean - double(data_[c]));
    data_[3 * channels_ + c] = T(squares - double(data_[channels_ + c]));
  }

 private:
  T* data_;
  int64_t channels_;
};

/// y becomes Chan's merge of y (ny elements so far; none: y becomes x) and x (nx elements).
template <class T>
void merge_statistics(const View& x_view, double nx, const View& y_view, double ny) {
  const Statistics<T> x(x_view), y(y_view);
  for (int64_t c = 0; c < x_view.dims[1]; c++) {
    if (ny == 0) {
      y.put(c, x.mean(c), x.squares(c));
      continue;
    }
    const double delta = x.mean(c) - y.mean(c), n = nx + ny;
    y.put(c, y.mean(c) + delta * nx / n, x.squares(c) + y.squares(c) + delta * delta * nx * ny / n);
  }
}

inline bool is_statistics(const View& v, int64_t channels) { return v.rank == 2 && is_matrix(v, 4, channels); }

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
      return refuse(c, "per-channel inputs must be [C], statistics [4,C]");
  for (uint32_t i = 0; i < c.n_outs; i++)
    if (!(writes_box ? box(c.outs[i]) : is_vector(c.outs[i], channels)))
      return refuse(c, writes_box ? "the output must hold the box of the inputs" : "the outputs must be [C]");
  return {};
}

inline Status check_bn_stats(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  const View& x = c.ins[0];
  return is_activation(x) && is_statistics(c.outs[0], x.dims[1]) ? Status{} : refuse(c, "stats must be [4,C]");
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
    return refuse(c, "stats must be [4,C], mean and variance [C]");
  return {};
}

}  // namespace spillway::ops
