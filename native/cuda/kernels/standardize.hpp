// Weight standardisation and its gradient. A block has one row of the weight, the weights of one output channel: its items add up, in their
// order.
#pragma once
#include <cmath>

#include "cuda/kernels/layout.hpp"
#include "ops/standardize.hpp"

namespace spillway::cuda {

/// The moments of a row, from deviations from its first weight: squares of a mean far from zero would cancel.
struct RowOfWeights {
  struct Shared {
    double at[2][BLOCK_ITEMS];
    double mean, rstd, sum[2];
  };
  const float* w;
  uint32_t size;
  double eps;

  SPILLWAY_BOTH const float* row(uint32_t block) const { return w + uint64_t(block) * size; }
  SPILLWAY_BOTH void gather(Shared& shared, uint32_t block, uint32_t item) const {
    const float* const from = row(block);
    double sum = 0, squares = 0;
    for (uint32_t i = item; i < size; i += BLOCK_ITEMS) {
      const double deviation = double(from[i]) - double(from[0]);
      sum += deviation;
      squares += deviation * deviation;
    }
    shared.at[0][item] = sum;
    shared.at[1][item] = squares;
  }
  SPILLWAY_BOTH void total(Shared& shared) const {
    for (int s = 0; s < 2; s++) {
      shared.sum[s] = 0;
      for (uint32_t i = 0; i < BLOCK_ITEMS; i++) shared.sum[s] += shared.at[s][i];
    }
  }
  SPILLWAY_BOTH void moments(Shared& shared, uint32_t block, uint32_t item) const {
    if (item != 0) return;
    total(shared);
    const double squares = shared.sum[1] - shared.sum[0] * shared.sum[0] / size;
    shared.mean = double(row(block)[0]) + shared.sum[0] / size;
    shared.rstd = 1.0 / sqrt((squares > 0 ? squares : 0) / size + eps);
  }
};

template <class T>
struct StandardizeRow {
  static constexpr int PHASES = 3;
  using Shared = RowOfWeights::Shared;
  RowOfWeights of;
  WeightOrder order;
  T* y;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    if constexpr (phase == 0) of.gather(shared, block, item);
    if constexpr (phase == 1) of.moments(shared, block, item);
    if constexpr (phase == 2) {
      const float* const from = of.row(block);
      T* const to = y + uint64_t(block) * of.size;
      for (uint32_t i = item; i < of.size; i += BLOCK_ITEMS) to[i] = float((double(from[order.plain(i)]) - shared.mean) * shared.rstd);
    }
  }
};

struct StandardizeRowGradient {
  static constexpr int PHASES = 5;
  using Shared = RowOfWeights::Shared;
  RowOfWeights of;
  const float* dy;
  float* dw;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    const float *const from = of.row(block), *const gradient = dy + uint64_t(block) * of.size;
    if constexpr (phase == 0) of.gather(shared, block, item);
    if constexpr (phase == 1) of.moments(shared, block, item);
    if constexpr (phase == 2) {
      double plain = 0, products = 0;
      for (uint32_t i = item; i < of.size; i += BLOCK_ITEMS) {
        plain += double(gradient[i]);
        products += double(gradient[i]) * (double(from[i]) - shared.mean);
      }
      shared.at[0][item] = plain;
      shared.at[1][item] = products;
    }
    if constexpr (phase == 3)
      if (item == 0) of.total(shared);
    if constexpr (phase == 4) {
      float* const to = dw + uint64_t(block) * of.size;
      const double offset = shared.sum[0] / of.size, tilt = shared.sum[1] * shared.rstd * shared.rstd / of.size;
      for (uint32_t i = item; i < of.size; i += BLOCK_ITEMS)
        to[i] = float(shared.rstd * (double(gradient[i]) - offset - (double(from[i]) - shared.mean) * tilt));
    }
  }
};

template <>
struct Kernel<OpKind::standardize> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const RowOfWeights rows{floats(c.ins[0]), uint32_t(ops::row_size(c.ins[0])), StandardizeAttrs::read(c.attrs).eps};
    exec.blocks(c.ins[0].dims[0], StandardizeRow<T>{rows, WeightOrder(c.ins[0]), static_cast<T*>(c.outs[0].data)});
  }
};

template <>
struct Kernel<OpKind::standardize_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const RowOfWeights rows{floats(c.ins[1]), uint32_t(ops::row_size(c.ins[1])), StandardizeBwdAttrs::read(c.attrs).eps};
    exec.blocks(c.ins[1].dims[0], StandardizeRowGradient{rows, floats(c.ins[0]), floats(c.outs[0])});
  }
};

}  // namespace spillway::cuda
