// The parts of global response normalisation, and their gradients.
#include <cmath>

#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"

namespace spillway::cpu {
namespace {

struct SquareSums : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return channel_sums_bytes<1>(image_of(c.ins[0], 0)); }
  static void run(const KernelCall& c) {
    for (int64_t b = 0; b < c.ins[0].dims[0]; b++) {
      const View x = image_of(c.ins[0], b);
      double* const totals = static_cast<double*>(c.workspace);
      channel_sums<float, 1>(Summands<1, 0>{{&x, 1}, {}, {}}, totals,
                             [](const auto& element, const auto&) { return std::array{element[0] * element[0]}; });
      std::copy_n(totals, x.dims[1], pixel_of(c.outs[0], b, 0, 0));
    }
  }
};

struct SquareSumsBackward : PlainKernel {
  static void run(const KernelCall& c) {
    for (int64_t b = 0; b < c.outs[0].dims[0]; b++) {
      const View x = image_of(c.ins[0], b);
      map_channels<0, 1>({&x, 1}, {}, {pixel_of(c.ins[1], b, 0, 0)}, image_of(c.outs[0], b),
                         [](const auto& value, const auto& ds) { return value[0] * ds[0] * 2.0f; });
    }
  }
};

/// Calls f(pixel of the first view, of the second, of the third, mean root plus eps) for each pixel; the first holds the sums.
template <class F>
void each_of(const View& s, const View& second, const View& third, double eps, F f) {
  for (int64_t b = 0; b < s.dims[0]; b++)
    for (int64_t h = 0; h < s.dims[2]; h++)
      for (int64_t w = 0; w < s.dims[3]; w++) {
        const float* const sums = pixel_of(s, b, h, w);
        double mean = 0;
        for (int64_t c = 0; c < s.dims[1]; c++) mean += std::sqrt(double(sums[c]));
        f(sums, pixel_of(second, b, h, w), pixel_of(third, b, h, w), mean / double(s.dims[1]) + eps);
      }
}

struct Response : PlainKernel {
  static void run(const KernelCall& c) {
    const float* const gamma = floats(c.ins[1]);
    each_of(c.ins[0], c.ins[0], c.outs[0], ResponseAttrs::read(c.attrs).eps, [&](const float* s, const float*, float* f, double mean) {
      for (int64_t i = 0; i < c.ins[0].dims[1]; i++) f[i] = float(1 + double(gamma[i]) * std::sqrt(double(s[i])) / mean);
    });
  }
};

struct ResponseBackwardData : PlainKernel {
  static void run(const KernelCall& c) {
    const float* const gamma = floats(c.ins[2]);
    const int64_t channels = c.ins[0].dims[1];
    each_of(c.ins[0], c.ins[1], c.outs[0], ResponseBwdDataAttrs::read(c.attrs).eps,
            [&](const float* s, const float* df, float* ds, double mean) {
              double shared = 0;
              for (int64_t i = 0; i < channels; i++) shared += double(gamma[i]) * double(df[i]) * std::sqrt(double(s[i]));
              shared /= double(channels) * mean;
              for (int64_t i = 0; i < channels; i++)
                ds[i] = s[i] == 0 ? 0.0f : float((double(gamma[i]) * double(df[i]) - shared) / (2 * mean * std::sqrt(double(s[i]))));
            });
  }
};

struct ResponseBackwardWeights : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return c.ins[0].dims[1] * int64_t(sizeof(double)); }
  static void run(const KernelCall& c) {
    const int64_t channels = c.ins[0].dims[1];
    double* const sums = static_cast<double*>(c.workspace);
    std::fill_n(sums, channels, 0.0);
    each_of(c.ins[0], c.ins[1], c.ins[1], ResponseBwdWeightsAttrs::read(c.attrs).eps,
            [&](const float* s, const float* df, float*, double mean) {
              for (int64_t i = 0; i < channels; i++) sums[i] += double(df[i]) * std::sqrt(double(s[i])) / mean;
            });
    for (int64_t i = 0; i < channels; i++) floats(c.outs[0])[i] = float(sums[i]);
  }
};

}  // namespace

const KernelEntry square_sums = entry<SquareSums>();
const KernelEntry square_sums_bwd = entry<SquareSumsBackward>();
const KernelEntry response = entry<Response>();
const KernelEntry response_bwd_data = entry<ResponseBackwardData>();
const KernelEntry response_bwd_weights = entry<ResponseBackwardWeights>();

}  // namespace spillway::cpu
