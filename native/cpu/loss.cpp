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
  static void sum(const KernelCall& c, double scale, Term term) {
    floats(c.outs[0])[0] = float(total(c, term) * scale);
  }

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

struct CountClasses : PlainKernel {
  static int64_t workspace(const KernelCall& c) {
    return loss_blocks(c.ins[0]) * CountClassesAttrs::read(c.attrs).classes * int64_t(sizeof(int64_t));
  }
  static void run(const KernelCall& c) {
    const auto a = CountClassesAttrs::read(c.attrs);
    const View& labels = c.ins[0];
    const int64_t rows = labels.dims[0] * labels.dims[2], blocks = loss_blocks(labels);
    int64_t* const counts = static_cast<int64_t*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
      int64_t* const own = counts + block * a.classes;
      std::fill_n(own, a.classes, 0);
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
        for (int64_t w = 0; w < labels.dims[3]; w++) {
          const int32_t label = label_at(labels, row / labels.dims[2], row % labels.dims[2], w);
          if (label >= 0 && label < a.classes && label != a.ignore_index) own[label]++;
        }
    }
    for (int64_t k = 0; k < a.classes; k++) {
      int64_t count = 0;
      for (int64_t block = 0; block < blocks; block++) count += counts[block * a.classes + k];
      const int64_t pieces = count / int64_t(ops::COUNT_PIECE);
      floats(c.outs[0])[k] = float(count % int64_t(ops::COUNT_PIECE));
      floats(c.outs[0])[a.classes + k] = float(pieces);
    }
  }
};

struct WeighClasses : PlainKernel {
  static void run(const KernelCall& c) {
    const int64_t classes = c.ins[0].dims[1];
    const float* const counted = floats(c.ins[0]);
    const auto weight = [&](int64_t k) { return c.n_attrs > 0 ? c.attrs[k] : 1.0; };
    double total = 0;
    for (int64_t k = 0; k < classes; k++) total += weight(k) * ops::counted_number(counted + k, counted + classes + k);
    for (int64_t k = 0; k < classes; k++) floats(c.outs[0])[k] = total > 0 ? float(weight(k) / total) : 0.0f;
  }
};

struct ClassXent : RowSum {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1];
    const ops::ClassXentTerms<float> terms(c);
    sum(c, terms.weight, [&](int64_t b, int64_t h, int64_t w) {
      const int32_t label = label_at(labels, b, h, w);
      if (!terms.takes(label, x.dims[1])) return 0.0;
      const T* pixel = pixel_of<T>(x, b, h, w);
      const Softmax s(pixel, x.dims[1]);
      return terms.value(pixel, 1, x.dims[1], label, std::log(s.total) + double(s.top));
    });
  }
};

struct ClassXentBackward : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1], &dx = c.outs[0];
    const ops::ClassXentTerms<float> terms(c);
    const int64_t classes = x.dims[1];
    const double all = terms.all_factors(classes);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const int32_t label = label_at(labels, b, h, w);
          const T* pixel = pixel_of<T>(x, b, h, w);
          T* gradient = pixel_of<T>(dx, b, h, w);
          if (!terms.takes(label, classes)) {
            std::fill_n(gradient, classes, T(0.0f));
            continue;
          }
          const Softmax s(pixel, classes);
          for (int64_t ch = 0; ch < classes; ch++)
            gradient[ch] = T(float(terms.slope(double(std::exp(float(pixel[ch]) - s.top)) / s.total, ch, classes, label, all)));
        }
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

struct SoftXent : RowSum {
  template <class T>
  static void run(const KernelCall& c) {
    const View& x = c.ins[0];
    const ops::SoftXentTerms terms(c);
    sum(c, terms.scale, [&](int64_t b, int64_t h, int64_t w) {
      const T* pixel = pixel_of<T>(x, b, h, w);
      const float* target = pixel_of(c.ins[1], b, h, w);
      const Softmax s(pixel, x.dims[1]);
      const double log_total = std::log(s.total) + double(s.top);
      double all = 0;
      for (int64_t ch = 0; ch < x.dims[1]; ch++) all += terms.share(double(target[ch]), x.dims[1]) * (log_total - double(pixel[ch]));
      return all;
    });
  }
};

struct SoftXentBackward : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &dx = c.outs[0];
    const ops::SoftXentTerms terms(c);
    const int64_t classes = x.dims[1];
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const T* pixel = pixel_of<T>(x, b, h, w);
          const float* target = pixel_of(c.ins[1], b, h, w);
          T* gradient = pixel_of<T>(dx, b, h, w);
          const Softmax s(pixel, classes);
          double all = 0;
          for (int64_t ch = 0; ch < classes; ch++) all += terms.share(double(target[ch]), classes);
          for (int64_t ch = 0; ch < classes; ch++)
            gradient[ch] = T(float(
                terms.scale * (double(std::exp(float(pixel[ch]) - s.top)) / s.total * all - terms.share(double(target[ch]), classes))));
        }
  }
};

struct LabelNumbers : PlainKernel {
  static void run(const KernelCall& c) {
    const View &labels = c.ins[0], &y = c.outs[0];
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < y.dims[0]; b++)
      for (int64_t h = 0; h < y.dims[2]; h++)
        for (int64_t w = 0; w < y.dims[3]; w++) *pixel_of(y, b, h, w) = float(label_at(labels, b, h, w));
  }
};

struct DiceSums : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return loss_blocks(c.ins[0]) * 3 * c.ins[0].dims[1] * int64_t(sizeof(double)); }
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1];
    const int64_t ignored = DiceSumsAttrs::read(c.attrs).ignore_index, classes = x.dims[1];
    const int64_t rows = x.dims[0] * x.dims[2], blocks = loss_blocks(x);
    double* const partial = static_cast<double*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
      double* const own = partial + block * 3 * classes;
      std::fill_n(own, 3 * classes, 0.0);
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const int64_t b = row / x.dims[2], h = row % x.dims[2];
          const int32_t label = label_at(labels, b, h, w);
          if (label < 0 || label >= ops::dice_labels(classes) || label == ignored) continue;
          const T* pixel = pixel_of<T>(x, b, h, w);
          if (classes == 1) {
            const double yes = ops::dice_sigmoid(double(pixel[0]));
            own[0] += label * yes;
            own[1] += yes;
            own[2] += label;
            continue;
          }
          const Softmax s(pixel, classes);
          for (int64_t k = 0; k < classes; k++) own[classes + k] += double(std::exp(float(pixel[k]) - s.top)) / s.total;
          own[label] += double(std::exp(float(pixel[label]) - s.top)) / s.total;
          own[2 * classes + label]++;
        }
    }
    for (int64_t i = 0; i < 3 * classes; i++) {
      double sum = 0;
      for (int64_t block = 0; block < blocks; block++) sum += partial[block * 3 * classes + i];
      floats(c.outs[0])[i] = float(sum);
    }
  }
};

struct DiceSumsBackward : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1], &dx = c.outs[0];
    const int64_t ignored = DiceSumsAttrs::read(c.attrs).ignore_index, classes = x.dims[1];
    const float *const shared = floats(c.ins[2]), *const given = shared + classes;
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const int32_t label = label_at(labels, b, h, w);
          const T* pixel = pixel_of<T>(x, b, h, w);
          T* gradient = pixel_of<T>(dx, b, h, w);
          if (label < 0 || label >= ops::dice_labels(classes) || label == ignored) {
            std::fill_n(gradient, classes, T(0.0f));
            continue;
          }
          if (classes == 1) {
            const double yes = ops::dice_sigmoid(double(pixel[0]));
            gradient[0] = T(float(yes * (1 - yes) * (double(given[0]) + label * double(shared[0]))));
            continue;
          }
          const Softmax s(pixel, classes);
          const auto p = [&](int64_t k) { return double(std::exp(float(pixel[k]) - s.top)) / s.total; };
          const auto slope = [&](int64_t k) { return double(given[k]) + (k == label ? double(shared[k]) : 0); };
          double mean = 0;
          for (int64_t k = 0; k < classes; k++) mean += p(k) * slope(k);
          for (int64_t k = 0; k < classes; k++) gradient[k] = T(float(p(k) * (slope(k) - mean)));
        }
  }
};

struct Dice : PlainKernel {
  static void run(const KernelCall& c) { floats(c.outs[0])[0] = float(ops::DiceTerms<float>(c).value()); }
};

struct DiceBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const ops::DiceTerms<float> terms(c);
    float* const slopes = floats(c.outs[0]);
    for (int64_t k = 0; k < terms.classes; k++) {
      slopes[k] = float(terms.slope_of_shared(k));
      slopes[terms.classes + k] = float(terms.slope_of_given(k));
      slopes[2 * terms.classes + k] = 0;
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
    const auto slope = [scale, loss = ops::loss_of<Loss>(c.attrs)](float x, float t) {
      return scale * float(loss.slope(double(x), double(t)));
    };
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
const KernelEntry count_classes = entry<CountClasses>();
const KernelEntry weigh_classes = entry<WeighClasses>();
const KernelEntry class_xent = entry<ClassXent>();
const KernelEntry class_xent_bwd = entry<ClassXentBackward>();
const KernelEntry soft_xent = entry<SoftXent>();
const KernelEntry soft_xent_bwd = entry<SoftXentBackward>();
const KernelEntry label_numbers = entry<LabelNumbers>();
const KernelEntry dice_sums = entry<DiceSums>();
const KernelEntry dice_sums_bwd = entry<DiceSumsBackward>();
const KernelEntry dice = entry<Dice>();
const KernelEntry dice_bwd = entry<DiceBackward>();

#define SPILLWAY_LOSS_ENTRY(kind)                                         \
  const KernelEntry kind = entry<ElementLoss<ops::element_loss::kind>>(); \
  const KernelEntry kind##_bwd = entry<ElementLossBackward<ops::element_loss::kind>>();
SPILLWAY_ELEMENT_LOSSES(SPILLWAY_LOSS_ENTRY)
#undef SPILLWAY_LOSS_ENTRY

}  // namespace spillway::cpu
