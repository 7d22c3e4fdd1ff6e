// Layer norm over the channels of each pixel, and its gradients: a pixel's moments once, then its channels.
#include <cmath>

#include "cpu/channel_sums.hpp"

namespace spillway::cpu {
namespace {

/// The moments that normalise the channels of a pixel.
struct PixelMoments {
  template <class T>
  PixelMoments(const T* x, int64_t channels, double eps) {
    double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < channels; c++) sum += double(float(x[c]));
    const double centre = sum / double(channels);
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < channels; c++) squares += (double(float(x[c])) - centre) * (double(float(x[c])) - centre);
    mean = centre;
    rstd = 1 / std::sqrt(squares / double(channels) + eps);
  }
  double mean, rstd;
};

/// Calls f(b, h, w) for each pixel by its place in the view.
template <class F>
void each_place(const View& v, F f) {
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < v.dims[0]; b++)
    for (int64_t h = 0; h < v.dims[2]; h++)
      for (int64_t w = 0; w < v.dims[3]; w++) f(b, h, w);
}

struct LayerNorm : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const double eps = LayerNormAttrs::read(c.attrs).eps;
    const float *const gamma = floats(c.ins[1]), *const beta = c.n_ins > 2 ? floats(c.ins[2]) : nullptr;
    each_place(x, [&](int64_t b, int64_t h, int64_t w) {
      const T* const from = pixel_of<T>(x, b, h, w);
      T* const to = pixel_of<T>(y, b, h, w);
      const PixelMoments m(from, x.dims[1], eps);
      const float mean = float(m.mean), rstd = float(m.rstd);
      each_lane_group(x.dims[1], [&](int64_t first, int64_t count) {
        float normal[lanes];
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
          normal[i] = (float(from[first + i]) - mean) * rstd * gamma[first + i] + (beta ? beta[first + i] : 0);
        store(normal, to + first, count);
      });
    });
  }
};

struct LayerNormBackwardData : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &dy = c.ins[1], &dx = c.outs[0];
    const double eps = LayerNormBwdDataAttrs::read(c.attrs).eps;
    const float* const gamma = floats(c.ins[2]);
    const int64_t channels = x.dims[1];
    each_place(x, [&](int64_t b, int64_t h, int64_t w) {
      const T *const value = pixel_of<T>(x, b, h, w), *const gradient = pixel_of<T>(dy, b, h, w);
      T* const to = pixel_of<T>(dx, b, h, w);
      const PixelMoments m(value, channels, eps);
      // In double: a gradient that hardly changes the normalised values is a small difference of large numbers.
      double plain = 0, products = 0;
#pragma omp simd reduction(+ : plain, products)
      for (int64_t ch = 0; ch < channels; ch++) {
        const double g = double(gamma[ch]) * double(float(gradient[ch]));
        plain += g;
        products += g * ((double(float(value[ch])) - m.mean) * m.rstd);
      }
      const double level = plain / double(channels), slope = products / double(channels);
      each_lane_group(channels, [&](int64_t first, int64_t count) {
        float slopes[lanes];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
          const double normal = (double(float(value[first + i])) - m.mean) * m.rstd;
          slopes[i] = float(m.rstd * (double(gamma[first + i]) * double(float(gradient[first + i])) - level - normal * slope));
        }
        store(slopes, to + first, count);
      });
    });
  }
};

/// Blocks of rows by their number only, merged in order: the same bits for any number of threads.
struct LayerNormBackwardWeights : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return channel_sums_bytes<2>(c.ins[0]); }
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &dy = c.ins[1];
    const double eps = LayerNormBwdWeightsAttrs::read(c.attrs).eps;
    const int64_t channels = x.dims[1], rows = x.dims[0] * x.dims[2], blocks = sum_blocks(x);
    double* const scratch = static_cast<double*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
      double *const products = scratch + block * 2 * channels, *const sums = products + channels;
      std::fill_n(products, 2 * channels, 0.0);
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const T *const value = pixel_of<T>(x, row / x.dims[2], row % x.dims[2], w), *const gradient = pixel_of<T>(dy, row / x.dims[2],
                                                                                                                    row % x.dims[2], w);
          const PixelMoments m(value, channels, eps);
          const float mean = float(m.mean), rstd = float(m.rstd);
#pragma omp simd
          for (int64_t ch = 0; ch < channels; ch++) {
            products[ch] += double(float(gradient[ch]) * ((float(value[ch]) - mean) * rstd));
            sums[ch] += double(float(gradient[ch]));
          }
        }
    }
    for (uint32_t k = 0; k < 2; k++)
      for (int64_t ch = 0; ch < channels; ch++) {
        double total = 0;
        for (int64_t block = 0; block < blocks; block++) total += scratch[(block * 2 + k) * channels + ch];
        floats(c.outs[k])[ch] = float(total);
      }
  }
};

}  // namespace

const KernelEntry layer_norm = entry<LayerNorm>();
const KernelEntry layer_norm_bwd_data = entry<LayerNormBackwardData>();
const KernelEntry layer_norm_bwd_weights = entry<LayerNormBackwardWeights>();

}  // namespace spillway::cpu
