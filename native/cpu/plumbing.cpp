// The calls that tiling adds between operators: fill, copy, and merges of sums and of moments (Chan's) on any
// strides.
#include "ops/plumbing.hpp"
#include "ops/batchnorm.hpp"

#include <cstring>

#include "cpu/merging.hpp"
#include "cpu/runs.hpp"

namespace spillway::cpu {

void merge_moments_of(const View& x, double nx, const View& y, double ny) { ops::merge_statistics<float>(x, nx, y, ny); }

namespace {

/// Views whose channels are not innermost (a 4-D parameter against an activation) go element by element.
template <class Body>
void each_pair(const View& y, const View& x, Body body, const Outside* outside = nullptr) {
  const bool plain = ops::dense_plain(y) && ops::dense_plain(x);
  if (plain || (ops::is_activation(y) && ops::is_activation(x))) return each_run<2>({&y, &x}, body, outside);
  for (int64_t b = 0; b < y.dims[0]; b++)
    for (int64_t c = 0; c < y.dims[1]; c++)
      for (int64_t h = 0; h < y.dims[2]; h++)
        for (int64_t w = 0; w < y.dims[3]; w++)
          body(Pointers<2>{pixel_of(y, b, h, w) + c * y.strides[1], pixel_of(x, b, h, w) + c * x.strides[1]}, int64_t(1));
}

struct Fill : PlainKernel {
  static void run(const KernelCall& c) {
    const float value = float(FillAttrs::read(c.attrs).value);
    each_run<1>({&c.outs[0]}, [value](Pointers<1> at, int64_t n) { std::fill_n(at[0], n, value); });
  }
};

struct Copy : PlainKernel {
  static void run(const KernelCall& c) {
    each_pair(
        c.outs[0], c.ins[0], [](Pointers<2> at, int64_t n) { std::memmove(at[0], at[1], size_t(n) * sizeof(float)); }, outside_of(c));
  }
};

struct MergeSum : PlainKernel {
  static void run(const KernelCall& c) {
    each_pair(c.outs[0], c.ins[0], [](Pointers<2> at, int64_t n) {
      float *const y = at[0], *const x = at[1];
#pragma omp simd
      for (int64_t i = 0; i < n; i++) y[i] += x[i];
    });
  }
};

struct MergeMoments : PlainKernel {
  static void run(const KernelCall& call) {
    const auto a = MergeMomentsAttrs::read(call.attrs);
    merge_moments_of(call.ins[0], double(a.count_x), call.outs[0], double(a.count_y));
  }
};

/// Plans give plumbing no scratch for copies in floats: in f16, the reference's loops work on the values as they lie.
template <class Op>
const KernelEntry* entry_for(const KernelCall& c) {
  static constexpr KernelEntry own = entry<Op>();
  return ops::stored_type(c) == DType::f16 ? ref::kernel(c.kind) : &own;
}
template <class Op>
constexpr KernelEntry without_scratch() {
  return {[](const KernelCall& c, uint32_t most) { return entry_for<Op>(c)->ways(c, most); },
          [](const KernelCall& c) { return entry_for<Op>(c)->prepare(c); }};
}

}  // namespace

const KernelEntry fill = without_scratch<Fill>();
const KernelEntry copy = without_scratch<Copy>();
const KernelEntry merge_sum = without_scratch<MergeSum>();
const KernelEntry merge_moments = entry<MergeMoments>();

}  // namespace spillway::cpu
