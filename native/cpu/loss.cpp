// Softmax cross-entropy (per image and per pixel) and the losses per element, each with its gradient. Losses add up in
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

  /// Writes scale·Σ term.
  template <class Term>
  static void sum(const KernelCall& c, double scale, Term term) { floats(c.outs[0])[0] = float(total(c, term) * scale); }

  /// Σ term(b, h, w), pixel places counted inside the view.
  template <class Term>
  static double total(const KernelCall& c, Term term) {
    const View& x = c.ins[0];
    const int64_t rows = x.dims[0] * x.dims[2], blocks = loss_blocks(x);
    double* partial = static_cast<double*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
      double sum = 0;
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
        for (int64_t w = 0; w < x.dims[3]; w++) sum += term(row / x.dims[2], row % x.dims[2], w);
      partial[block] = sum;
    }
    double all = 0;
    for (int64_t block = 0; block < blocks; block++) all += partial[block];
    return all;
  }
};

int32_t label_at(const View& labels, int64_t b, int64_t h, int64_t w) {
  return static_cast<const int32_t*>(labels.data)[b * labels.strides[0] + h * labels.strides[2] + w * labels.strides[3]];
}

/// Softmax of one pixel's channels: exp(x - top) / total.
struct Softmax {
  template <class T>
  Softmax(const T* x, int64_t channels) : top(-std::numeric_limits<float>::infinity()) {
    for (int64_t c = 0; c < channels; c++) top = std::max(top, float(x[c]));
    for (int64_t c = 0; c < channels; c++) total += double(std::exp(float(x[c]) - top));
  }
  float top;
  double total = 0;
};

struct CountLabels : RowSum {
  static void run(const KernelCall& c) {
    const int64_t ignored = CountLabelsAttrs::read(c.attrs).ignore_index;
    const double count = total(c, [&](int64_t b, int64_t h, int64_t w) { return double(label_at(c.ins[0], b, h, w) != ignored); });
    floats(c.outs[0])[0] = float(std::fmod(count, ops::COUNT_PIECE));
    floats(c.outs[0])[1] = float(std::floor(count / ops::COUNT_PIECE));
  }
};

struct SoftmaxXent : RowSum {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1];
    const ops::Xent<float> xent(c);
    sum(c, xent.scale(), [&](int64_t b, int64_t h, int64_t w) {
      const int32_t label = label_at(labels, b, h, w);
      if (!xent.takes(label, x.dims[1])) return 0.0;
      const T* pixel = pixel_of<T>(x, b, h, w);
      const Softmax s(pixel, x.dims[1]);
      return std::log(s.total) + double(s.top) - double(pixel[label]);
    });
  }
};

struct SoftmaxXentBackward : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1], &dx = c.outs[0];
    const ops::Xent<float> xent(c);
    const double scale = xent.scale();
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const int32_t label = label_at(labels, b, h, w);
          const T* pixel = pixel_of<T>(x, b, h, w);
          T* gradient = pixel_of<T>(dx, b, h, w);
          if (!xent.takes(label, x.dims[1])) {
            std::fill_n(gradient, x.dims[1], T(0.0f));
            continue;
          }
          const Softmax s(pixel, x.dims[1]);
          const float share = float(scale / s.total);
          for (int64_t ch = 0; ch < x.dims[1]; ch++) gradient[ch] = T(std::exp(float(pixel[ch]) - s.top) * share);
          gradient[label] = T(float((double(std::exp(float(pixel[label]) - s.top)) / s.total - 1) * scale));
        }
  }
};

template <class Loss>
struct ElementLoss : RowSum {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = ops::ElementLossAttrs::read(c.attrs);
    const View& x = c.ins[0];
    sum(c, a.weight / double(a.count), [&, loss = ops::loss_of<Loss>(c.attrs)](int64_t b, int64_t h, int64_t w) {
      const T* value = pixel_of<T>(x, b, h, w);
      const float* wanted = c.n_ins > 1 ? pixel_of(c.ins[1], b, h, w) : nullptr;
      double total = 0;
#pragma omp simd reduction(+ : total)
      for (int64_t ch = 0; ch < x.dims[1]; ch++) total += loss.value(double(value[ch]), wanted ? double(wanted[ch]) : a.constant);
      return total;
    });
  }
};

template <class Loss>
struct ElementLossBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const auto a = ops::ElementLossAttrs::read(c.attrs);
    const float scale = float(a.weight / double(a.count)), constant = float(a.constant);
    const auto slope = [scale, loss = ops::loss_of<Loss>(c.attrs)](float x, float t) { return scale * float(loss.slope(double(x), double(t))); };
    if (c.n_ins > 1)
      each_run<3>({&c.outs[0], &c.ins[0], &c.ins[1]}, [slope](Pointers<3> at, int64_t n) {
        float *const dx = at[0], *const x = at[1], *const target = at[2];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = slope(x[i], target[i]);
      });
    else
      each_run<2>({&c.outs[0], &c.ins[0]}, [slope, constant](Pointers<2> at, int64_t n) {
        float *const dx = at[0], *const x = at[1];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = slope(x[i], constant);
      });
  }
};

}  // namespace

const KernelEntry softmax_xent = entry<SoftmaxXent>();
const KernelEntry softmax_xent_bwd = entry<SoftmaxXentBackward>();
const KernelEntry count_labels = entry<CountLabels>();
const KernelEntry softmax_xent_counted = entry<SoftmaxXent>();
const KernelEntry softmax_xent_counted_bwd = entry<SoftmaxXentBackward>();

#define SPILLWAY_LOSS_ENTRY(kind)                                      \
  const KernelEntry kind = entry<ElementLoss<ops::element_loss::kind>>(); \
  const KernelEntry kind##_bwd = entry<ElementLossBackward<ops::element_loss::kind>>();
SPILLWAY_ELEMENT_LOSSES(SPILLWAY_LOSS_ENTRY)
#undef SPILLWAY_LOSS_ENTRY

}  // namespace spillway::cpu
