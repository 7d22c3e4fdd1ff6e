// Products of tensors (the second may have one value for many elements), products of a tensor and a parameter, and their gradients.
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// The element for a place: a dimension of size one is repeated.
template <class T>
T& at_place(const Tensor<T>& t, int64_t b, int64_t c, int64_t h, int64_t w) {
  const View& v = t.view();
  const auto place = [&](int d, int64_t i) { return v.dims[d] == 1 ? v.origin[d] : i; };
  return t.global(place(0, b), place(1, c), place(2, h), place(3, w));
}

struct Multiply {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), s(call.ins[1]), y(call.outs[0]);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      y.global(b, c, h, w) = T(double(x.global(b, c, h, w)) * double(at_place(s, b, c, h, w)));
    });
  }
};

struct Scale {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), gamma(call.ins[1]), y(call.outs[0]);
    const int64_t first = call.outs[0].origin[1];
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      y.global(b, c, h, w) = T(double(x.global(b, c, h, w)) * double(gamma[c - first]));
    });
  }
};

/// Σ x·dy into each element of the output, of the places that it stands for.
struct SumOfProducts {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dy(call.ins[1]), sums(call.outs[0]);
    const View& of = call.outs[0];
    each_element(of, [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      View places = call.ins[0];
      const int64_t at[4] = {b, c, h, w};
      for (int d = 0; d < 4; d++)
        if (of.dims[d] != 1) places.origin[d] = at[d], places.dims[d] = 1;
      double total = 0;
      each_element(places, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
        total += double(x.global(i, j, k, l)) * double(dy.global(i, j, k, l));
      });
      at_place(sums, b, c, h, w) = T(total);
    });
  }
};

struct ScaleGradient {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dy(call.ins[1]), dgamma(call.outs[0]);
    std::vector<double> totals(size_t(call.ins[0].dims[1]));
    each_element(call.ins[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      totals[size_t(c - call.ins[0].origin[1])] += double(x.global(b, c, h, w)) * double(dy.global(b, c, h, w));
    });
    for (size_t c = 0; c < totals.size(); c++) dgamma[int64_t(c)] = T(totals[c]);
  }
};

}  // namespace

const KernelEntry multiply = entry<Multiply>();
const KernelEntry multiply_bwd_data = entry<Multiply>();
const KernelEntry multiply_bwd_space = entry<SumOfProducts>();
const KernelEntry multiply_bwd_channels = entry<SumOfProducts>();
const KernelEntry scale = entry<Scale>();
const KernelEntry scale_bwd_data = entry<Scale>();
const KernelEntry scale_bwd_weights = entry<ScaleGradient>();

}  // namespace spillway::ref
