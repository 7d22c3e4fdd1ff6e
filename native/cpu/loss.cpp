// Softmax cross-entropy (per image and per pixel) and mean squared error, each with its gradient. Losses add up in
// double, in blocks of rows that are merged in order: the same bits for any number of threads.
#include "ops/loss.hpp"

#include <cmath>
#include <limits>

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

int64_t loss_blocks(const View& x) { return std::min<int64_t>(x.dims[0] * x.dims[2], 64); }

/// A kernel that adds up one double for each block of rows.
struct RowSum : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return loss_blocks(c.ins[0]) * int64_t(sizeof(double)); }

  /// Writes Σ term(b, h, w) / count, pixel places counted inside the view.
  template <class Term>
  static void sum(const KernelCall& c, double count, Term term) {
    const View& x = c.ins[0];
    const int64_t rows = x.dims[0] * x.dims[2], blocks = loss_blocks(x);
    double* partial = static_cast<double*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
      double total = 0;
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
        for (int64_t w = 0; w < x.dims[3]; w++) total += term(row / x.dims[2], row % x.dims[2], w);
      partial[block] = total;
    }
    double total = 0;
    for (int64_t block = 0; block < blocks; block++) total += partial[block];
    floats(c.outs[0])[0] = float(total / count);
  }
};

int32_t label_at(const View& labels, int64_t b, int64_t h, int64_t w) {
  return static_cast<const int32_t*>(labels.data)[b * labels.strides[0] + h * labels.strides[2] + w * labels.strides[3]];
}

/// Softmax of one pixel's channels: exp(x - top) / total.
struct Softmax {
  Softmax(const float* x, int64_t channels) : top(-std::numeric_limits<float>::infinity()) {
    for (int64_t c = 0; c < channels; c++) top = std::max(top, x[c]);
    for (int64_t c = 0; c < channels; c++) total += double(std::exp(x[c] - top));
  }
  float top;
  double total = 0;
};

struct SoftmaxXent : RowSum {
  static constexpr auto check = ops::check_softmax_xent;
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1];
    sum(c, double(SoftmaxXentAttrs::read(c.attrs).count), [&](int64_t b, int64_t h, int64_t w) {
      const int32_t label = label_at(labels, b, h, w);
      if (label < 0 || label >= x.dims[1]) return 0.0;
      const float* pixel = pixel_of(x, b, h, w);
      const Softmax s(pixel, x.dims[1]);
      return std::log(s.total) + double(s.top) - double(pixel[label]);
    });
  }
};

struct SoftmaxXentBackward : PlainKernel {
  static constexpr auto check = ops::check_softmax_xent_bwd;
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1], &dx = c.outs[0];
    const double count = double(SoftmaxXentBwdAttrs::read(c.attrs).count);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const int32_t label = label_at(labels, b, h, w);
          const float* pixel = pixel_of(x, b, h, w);
          float* gradient = pixel_of(dx, b, h, w);
          if (label < 0 || label >= x.dims[1]) {
            std::fill_n(gradient, x.dims[1], 0.0f);
            continue;
          }
          const Softmax s(pixel, x.dims[1]);
          const float share = float(1 / (s.total * count));
          for (int64_t ch = 0; ch < x.dims[1]; ch++) gradient[ch] = std::exp(pixel[ch] - s.top) * share;
          gradient[label] = float((double(std::exp(pixel[label] - s.top)) / s.total - 1) / count);
        }
  }
};

struct Mse : RowSum {
  static constexpr auto check = ops::check_mse;
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &target = c.ins[1];
    sum(c, double(MseAttrs::read(c.attrs).count), [&](int64_t b, int64_t h, int64_t w) {
      const float *value = pixel_of(x, b, h, w), *wanted = pixel_of(target, b, h, w);
      double total = 0;
#pragma omp simd reduction(+ : total)
      for (int64_t ch = 0; ch < x.dims[1]; ch++) {
        const double difference = double(value[ch]) - double(wanted[ch]);
        total += difference * difference;
      }
      return total;
    });
  }
};

struct MseBackward : PlainKernel {
  static constexpr auto check = ops::check_mse_bwd;
  static void run(const KernelCall& c) {
    const float scale = float(2.0 / double(MseBwdAttrs::read(c.attrs).count));
    each_run<3>({&c.outs[0], &c.ins[0], &c.ins[1]}, [scale](Pointers<3> at, int64_t n) {
      const auto [dx, x, target] = at;
#pragma omp simd
      for (int64_t i = 0; i < n; i++) dx[i] = scale * (x[i] - target[i]);
    });
  }
};

}  // namespace

const KernelEntry softmax_xent = entry<SoftmaxXent>();
const KernelEntry softmax_xent_bwd = entry<SoftmaxXentBackward>();
const KernelEntry mse = entry<Mse>();
const KernelEntry mse_bwd = entry<MseBackward>();

}  // namespace spillway::cpu
