// Softmax over the channels of a pixel, and its gradient, which reads y; in place or not.
#include <limits>

#include "cpu/runs.hpp"
#include "ops/elementary.hpp"

namespace spillway::cpu {
namespace {

/// Calls f(b, h, w) for each pixel by its place in the view.
template <class F>
void each_pixel(const View& v, F f) {
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < v.dims[0]; b++)
    for (int64_t h = 0; h < v.dims[2]; h++)
      for (int64_t w = 0; w < v.dims[3]; w++) f(b, h, w);
}

struct Softmax : PlainKernel {
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const int64_t channels = y.dims[1];
    each_pixel(y, [&](int64_t b, int64_t h, int64_t w) {
      const float* const from = pixel_of(x, b, h, w);
      float* const to = pixel_of(y, b, h, w);
      float most = -std::numeric_limits<float>::infinity(), sum = 0;
#pragma omp simd reduction(max : most)
      for (int64_t i = 0; i < channels; i++) most = std::max(most, from[i]);
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < channels; i++) sum += to[i] = ops::exponential_of_negative(from[i] - most);
      const float share = 1 / sum;
#pragma omp simd
      for (int64_t i = 0; i < channels; i++) to[i] *= share;
    });
  }
};

struct SoftmaxBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const View &y = c.ins[0], &dy = c.ins[1], &dx = c.outs[0];
    const int64_t channels = y.dims[1];
    each_pixel(y, [&](int64_t b, int64_t h, int64_t w) {
      const float *const value = pixel_of(y, b, h, w), *const gradient = pixel_of(dy, b, h, w);
      float* const to = pixel_of(dx, b, h, w);
      double sum = 0;
      for (int64_t i = 0; i < channels; i++) sum += double(gradient[i]) * double(value[i]);
      const float mean = float(sum);
      for (int64_t i = 0; i < channels; i++) to[i] = value[i] * (gradient[i] - mean);
    });
  }
};

}  // namespace

const KernelEntry softmax = entry<Softmax>();
const KernelEntry softmax_bwd = entry<SoftmaxBackward>();

}  // namespace spillway::cpu
