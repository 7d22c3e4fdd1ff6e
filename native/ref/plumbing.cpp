// The calls that tiling adds between operators: fill, copy, and merges of sums and of moments (Chan's) on any
// strides.
#include "ops/plumbing.hpp"
#include "ops/batchnorm.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Calls f(b, c, h, w) for each element, in local coordinates.
template <class F>
void each_local(const View& v, F f) {
  for (int64_t b = 0; b < v.dims[0]; b++)
    for (int64_t c = 0; c < v.dims[1]; c++)
      for (int64_t h = 0; h < v.dims[2]; h++)
        for (int64_t w = 0; w < v.dims[3]; w++) f(b, c, h, w);
}

struct Fill {
  static constexpr bool works_on_half = true;
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> y(call.outs[0]);
    const T value = T(FillAttrs::read(call.attrs).value);
    each_local(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) { y.at(b, c, h, w) = value; });
  }
};

struct Copy {
  static constexpr bool works_on_half = true;
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), y(call.outs[0]);
    each_local(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) { y.at(b, c, h, w) = x.at(b, c, h, w); });
  }
};

struct MergeSum {
  static constexpr bool works_on_half = true;
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), y(call.outs[0]);
    each_local(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      y.at(b, c, h, w) = T(double(y.at(b, c, h, w)) + double(x.at(b, c, h, w)));
    });
  }
};

struct MergeMoments {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = MergeMomentsAttrs::read(call.attrs);
    ops::merge_statistics<T>(call.ins[0], double(a.count_x), call.outs[0], double(a.count_y));
  }
};

}  // namespace

const KernelEntry fill = entry<Fill>();
const KernelEntry copy = entry<Copy>();
const KernelEntry merge_sum = entry<MergeSum>();
const KernelEntry merge_moments = entry<MergeMoments>();

}  // namespace spillway::ref
