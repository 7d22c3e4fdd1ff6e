// Statistics, as the norms keep and merge them.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

/// Statistics of the batch ([4,C]) or of one image ([B,4G,1,1]): rows mean, M2, and the rounding errors of both. With
/// these errors, merged statistics of tiles have the bits of the untiled ones in single precision too, so no
/// activation's sign depends on the tiling.
template <class T>
class Statistics {
 public:
  constexpr explicit Statistics(const View& v, int64_t image = 0)
      : data_(static_cast<T*>(v.data) + (v.rank == 4 ? image * v.strides[0] : 0)), size_(count(v)) {}
  /// Statistics in each row: channels, or groups.
  static constexpr int64_t count(const View& v) { return v.rank == 4 ? v.dims[1] / 4 : v.dims[1]; }
  static constexpr int64_t images(const View& v) { return v.rank == 4 ? v.dims[0] : 1; }
  constexpr double mean(int64_t i) const { return double(data_[i]) + double(data_[2 * size_ + i]); }
  constexpr double squares(int64_t i) const { return double(data_[size_ + i]) + double(data_[3 * size_ + i]); }
  constexpr void put(int64_t i, double mean, double squares) const {
    data_[i] = T(mean);
    data_[size_ + i] = T(squares);
    data_[2 * size_ + i] = T(mean - double(data_[i]));
    data_[3 * size_ + i] = T(squares - double(data_[size_ + i]));
  }

 private:
  T* data_;
  int64_t size_;
};

/// Number i of y becomes Chan's merge of y (ny elements so far; none: y becomes x) and x (nx elements).
template <class T>
constexpr void merge_statistic(const Statistics<T>& x, double nx, const Statistics<T>& y, double ny, int64_t i) {
  if (ny == 0) return y.put(i, x.mean(i), x.squares(i));
  const double delta = x.mean(i) - y.mean(i), n = nx + ny;
  y.put(i, y.mean(i) + delta * nx / n, x.squares(i) + y.squares(i) + delta * delta * nx * ny / n);
}

template <class T>
void merge_statistics(const View& x_view, double nx, const View& y_view, double ny) {
  for (int64_t image = 0; image < Statistics<T>::images(x_view); image++) {
    const Statistics<T> x(x_view, image), y(y_view, image);
    for (int64_t i = 0; i < Statistics<T>::count(x_view); i++) merge_statistic(x, nx, y, ny, i);
  }
}

inline bool is_statistics(const View& v, int64_t channels) { return v.rank == 2 && is_matrix(v, 4, channels); }

}  // namespace spillway::ops
