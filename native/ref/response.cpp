// The parts of global response normalisation, and their gradients.
#include <cmath>
#include <vector>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct SquareSums {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), s(call.outs[0]);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t, int64_t) {
      View places = call.ins[0];
      places.origin[0] = b, places.origin[1] = c, places.dims[0] = places.dims[1] = 1;
      double sum = 0;
      each_element(places,
                   [&](int64_t i, int64_t j, int64_t h, int64_t w) { sum += double(x.global(i, j, h, w)) * double(x.global(i, j, h, w)); });
      s.global(b, c, 0, 0) = T(sum);
    });
  }
};

struct SquareSumsBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), ds(call.ins[1]), dx(call.outs[0]);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      dx.global(b, c, h, w) = T(2 * double(x.global(b, c, h, w)) * double(ds.global(b, c, 0, 0)));
    });
  }
};

/// The roots of a pixel's channels, and their mean plus eps.
struct Roots {
  std::vector<double> values;
  double mean;
  template <class T>
  Roots(const Tensor<T>& s, double eps, int64_t b, int64_t h, int64_t w) : mean(eps) {
    const int64_t channels = s.view().dims[1];
    for (int64_t c = 0; c < channels; c++) values.push_back(std::sqrt(double(s.global(b, c, h, w))));
    for (const double v : values) mean += v / double(channels);
  }
};

struct Response {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> s(call.ins[0]), gamma(call.ins[1]), f(call.outs[0]);
    each_pixel(call.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      const Roots r(s, ResponseAttrs::read(call.attrs).eps, b, h, w);
      for (size_t c = 0; c < r.values.size(); c++) f.global(b, int64_t(c), h, w) = T(1 + double(gamma[int64_t(c)]) * r.values[c] / r.mean);
    });
  }
};

struct ResponseBackwardData {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> s(call.ins[0]), df(call.ins[1]), gamma(call.ins[2]), ds(call.outs[0]);
    each_pixel(call.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      const Roots r(s, ResponseBwdDataAttrs::read(call.attrs).eps, b, h, w);
      const auto slope = [&](size_t c) { return double(gamma[int64_t(c)]) * double(df.global(b, int64_t(c), h, w)); };
      double shared = 0;
      for (size_t c = 0; c < r.values.size(); c++) shared += slope(c) * r.values[c] / (double(r.values.size()) * r.mean);
      for (size_t c = 0; c < r.values.size(); c++)
        ds.global(b, int64_t(c), h, w) = T(r.values[c] == 0 ? 0 : (slope(c) - shared) / (2 * r.mean * r.values[c]));
    });
  }
};

struct ResponseBackwardWeights {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> s(call.ins[0]), df(call.ins[1]), dgamma(call.outs[0]);
    std::vector<double> sums(size_t(call.ins[0].dims[1]));
    each_pixel(call.ins[0], [&](int64_t b, int64_t h, int64_t w) {
      const Roots r(s, ResponseBwdWeightsAttrs::read(call.attrs).eps, b, h, w);
      for (size_t c = 0; c < sums.size(); c++) sums[c] += double(df.global(b, int64_t(c), h, w)) * r.values[c] / r.mean;
    });
    for (size_t c = 0; c < sums.size(); c++) dgamma[int64_t(c)] = T(sums[c]);
  }
};

}  // namespace

const KernelEntry square_sums = entry<SquareSums>();
const KernelEntry square_sums_bwd = entry<SquareSumsBackward>();
const KernelEntry response = entry<Response>();
const KernelEntry response_bwd_data = entry<ResponseBackwardData>();
const KernelEntry response_bwd_weights = entry<ResponseBackwardWeights>();

}  // namespace spillway::ref
