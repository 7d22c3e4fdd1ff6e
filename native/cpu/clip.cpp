// Clipping of gradients. Squares are added up in double, block by block, and the blocks in their order: the same bits on any number of
// threads.
#include "ops/clip.hpp"

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

struct ClipValues : PlainKernel {
  static void run(const KernelCall& c) {
    const float limit = float(ClipValuesAttrs::read(c.attrs).limit);
    each_chunk<2>({&c.outs[0], &c.ins[0]}, [limit](Pointers<2> at, int64_t n) {
      float *const y = at[0], *const g = at[1];
#pragma omp simd
      for (int64_t i = 0; i < n; i++) y[i] = ops::clipped_value(g[i], limit);
    });
  }
};

struct SquareSum : PlainKernel {
  static constexpr int64_t BLOCK = 8192;
  static int64_t blocks(const KernelCall& c) { return (ops::elements(c.ins[0]) + BLOCK - 1) / BLOCK; }
  static int64_t workspace(const KernelCall& c) { return blocks(c) * int64_t(sizeof(double)); }
  static void run(const KernelCall& c) {
    const float* const g = floats(c.ins[0]);
    double* const sums = static_cast<double*>(c.workspace);
    const int64_t all = ops::elements(c.ins[0]), count = blocks(c);
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < count; b++) {
      const int64_t end = std::min(all, (b + 1) * BLOCK);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = b * BLOCK; i < end; i++) sum += double(g[i]) * double(g[i]);
      sums[b] = sum;
    }
    double total = c.n_ins > 1 ? double(*floats(c.ins[1])) : 0;
    for (int64_t b = 0; b < count; b++) total += sums[b];
    *floats(c.outs[0]) = float(total);
  }
};

struct ClipNorm : PlainKernel {
  static void run(const KernelCall& c) {
    const float factor = float(ops::clip_factor(double(*floats(c.ins[1])), ClipNormAttrs::read(c.attrs).most));
    each_chunk<2>({&c.outs[0], &c.ins[0]}, [factor](Pointers<2> at, int64_t n) {
      float *const y = at[0], *const g = at[1];
#pragma omp simd
      for (int64_t i = 0; i < n; i++) y[i] = g[i] * factor;
    });
  }
};

}  // namespace

const KernelEntry clip_values = entry<ClipValues>();
const KernelEntry square_sum = entry<SquareSum>();
const KernelEntry clip_norm = entry<ClipNorm>();

}  // namespace spillway::cpu
