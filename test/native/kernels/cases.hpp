// Random cases for every operator of the table, by family. In: a seeded Random. Out: a Family.
#pragma once
#include "test/native/kernels/layer_cases.hpp"
#include "test/native/kernels/pointwise_cases.hpp"
#include "test/native/kernels/window_cases.hpp"

namespace spillway::test {

struct Generator {
  const char* name;
  Family (*make)(Random&);
  int most;

  /// One in `of` of its cases; fewer without the cpu device, where only ThreadSanitizer runs them, slowly.
  int cases(int of = 1) const {
#ifdef SPILLWAY_WITH_CPU
    return (most + of - 1) / of;
#else
    return (most + 8 * of - 1) / (8 * of);
#endif
  }
};

inline const std::vector<Generator>& generators() {
  static const std::vector<Generator> all{
      {"conv2d", conv2d_family, 120}, {"wide conv2d", wide_conv2d_family, 12}, {"strided 1x1 conv2d", strided_pointwise_family, 30},
      {"sliver conv2d", sliver_conv2d_family, 2},
      {"pool", pool_family, 60}, {"global_avg_pool", global_avg_pool_family, 20}, {"linear", linear_family, 30},
      {"batchnorm", batchnorm_family, 30}, {"frozen batchnorm", frozen_family, 20}, {"relu", relu_family, 20},
      {"dropout", dropout_family, 15}, {"add, concat", join_family, 25}, {"flatten", flatten_family, 15}, {"loss", loss_family, 25},
      {"update", update_family, 15}, {"plumbing", plumbing_family, 15}};
  return all;
}

}  // namespace spillway::test
