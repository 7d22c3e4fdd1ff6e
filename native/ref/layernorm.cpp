// Layer norm over the channels of each pixel, and its gradients.
#include <cmath>
#include <vector>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// A pixel's channels, normalised.
struct Normal {
  std::vector<double> values;
  double rstd;
};

template <class T>
Normal normal_of(const Tensor<T>& x, double eps, int64_t b, int64_t h, int64_t w) {
  const int64_t channels = x.view().dims[1];
  double mean = 0, variance = 0;
  for (int64_t c = 0; c < channels; c++) mean += double(x.global(b, c, h, w)) / double(channels);
  for (int64_t c = 0; c < channels; c++)
    variance += (double(x.global(b, c, h, w)) - mean) * (double(x.global(b, c, h, w)) - mean) / double(channels);
  Normal n{{}, 1 / std::sqrt(variance + eps)};
  for (int64_t c = 0; c < channels; c++) n.values.push_back((double(x.global(b, c, h, w)) - mean) * n.rstd);
  return n;
}

struct LayerNorm {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), gamma(call.ins[1]), y(call.outs[0]);
    const auto shift = [&](int64_t c) { return call.n_ins > 2 ? double(Tensor<T>(call.ins[2])[c]) : 0; };
    each_pixel(call.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      const Normal n = normal_of(x, LayerNormAttrs::read(call.attrs).eps, b, h, w);
      for (int64_t c = 0; c < int64_t(n.values.size()); c++) y.global(b, c, h, w) = T(n.values[size_t(c)] * double(gamma[c]) + shift(c));
    });
  }
};

struct LayerNormBackwardData {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dy(call.ins[1]), gamma(call.ins[2]), dx(call.outs[0]);
    each_pixel(call.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      const Normal n = normal_of(x, LayerNormBwdDataAttrs::read(call.attrs).eps, b, h, w);
      const int64_t channels = int64_t(n.values.size());
      const auto gradient = [&](int64_t c) { return double(gamma[c]) * double(dy.global(b, c, h, w)); };
      double plain = 0, products = 0;
      for (int64_t c = 0; c < channels; c++) {
        plain += gradient(c) / double(channels);
        products += gradient(c) * n.values[size_t(c)] / double(channels);
      }
      for (int64_t c = 0; c < channels; c++) dx.global(b, c, h, w) = T(n.rstd * (gradient(c) - plain - n.values[size_t(c)] * products));
    });
  }
};

struct LayerNormBackwardWeights {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dy(call.ins[1]), dgamma(call.outs[0]), dbeta(call.outs[1]);
    const size_t channels = size_t(call.ins[0].dims[1]);
    std::vector<double> products(channels), sums(channels);
    each_pixel(call.ins[0], [&](int64_t b, int64_t h, int64_t w) {
      const Normal n = normal_of(x, LayerNormBwdWeightsAttrs::read(call.attrs).eps, b, h, w);
      for (size_t c = 0; c < channels; c++) {
        products[c] += double(dy.global(b, int64_t(c), h, w)) * n.values[c];
        sums[c] += double(dy.global(b, int64_t(c), h, w));
      }
    });
    for (size_t c = 0; c < channels; c++) {
      dgamma[int64_t(c)] = T(products[c]);
      dbeta[int64_t(c)] = T(sums[c]);
    }
  }
};

}  // namespace

const KernelEntry layer_norm = entry<LayerNorm>();
const KernelEntry layer_norm_bwd_data = entry<LayerNormBackwardData>();
const KernelEntry layer_norm_bwd_weights = entry<LayerNormBackwardWeights>();

}  // namespace spillway::ref
