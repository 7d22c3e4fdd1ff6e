// Softmax cross-entropy (per image and per pixel) and the losses per element, each with its gradient. Terms are floats, and add up in
// double, in blocks of rows that are merged in order: the same bits for any number of threads.
#include "ops/loss.hpp"

#include <cmath>
#include <limits>

#include "cpu/blocks.hpp"
#include "cpu/runs.hpp"
#include "ops/elementary.hpp"

namespace spillway::cpu {
namespace {

int64_t loss_blocks(const View& x) { return std::min<int64_t>(x.dims[0] * x.dims[2], 64); }

/// A kernel that adds up one double for each block of rows.
struct RowSum : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return loss_blocks(c.ins[0]) * int64_t(sizeof(double)); }

  /// Writes scale·Σ of_row.
  template <class Row>
  static void sum(const KernelCall& c, double scale, Row of_row) {
    floats(c.outs[0])[0] = float(total(c, of_row) * scale);
  }

  /// Σ of_row(b, h), places counted inside the view.
  template <class Row>
  static double total(const KernelCall& c, Row of_row) {
    const View& x = c.ins[0];
    const int64_t rows = x.dims[0] * x.dims[2], blocks = loss_blocks(x);
    double* partial = static_cast<double*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
      double sum = 0;
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++) sum += of_row(row / x.dims[2], row % x.dims[2]);
      partial[block] = sum;
    }
    double all = 0;
    for (int64_t block = 0; block < blocks; block++) all += partial[block];
    return all;
  }
};

/// Calls f(b, h) for each row of a view.
template <class F>
void each_row_of(const View& v, F f) {
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < v.dims[0]; b++)
    for (int64_t h = 0; h < v.dims[2]; h++) f(b, h);
}

int32_t label_at(const View& labels, int64_t b, int64_t h, int64_t w) {
  return static_cast<const int32_t*>(labels.data)[b * labels.strides[0] + h * labels.strides[2] + w * labels.strides[3]];
}

/// The softmax of a pixel: exponential(channel) / total.
template <class Exponential>
struct Softmax {
  float top;
  double total;
  Exponential exponential;
};

/// Sixteen pixels side by side, each in a lane: few channels would leave registers empty.
template <class T>
struct PixelsBeside {
  PixelsBeside(const T* x, int64_t step, int64_t channels, int64_t pixels) {
    for (int64_t ch = 0; ch < channels; ch++) std::fill_n(values[ch], block_width, 0.0f);
    for (int64_t i = 0; i < pixels; i++)
      for (int64_t ch = 0; ch < channels; ch++) values[ch][i] = float(x[i * step + ch]);
    std::fill_n(top, block_width, -std::numeric_limits<float>::infinity());
    for (int64_t ch = 0; ch < channels; ch++)
#pragma omp simd
      for (int64_t i = 0; i < block_width; i++) top[i] = std::max(top[i], values[ch][i]);
    for (int64_t ch = 0; ch < channels; ch++)
#pragma omp simd
      for (int64_t i = 0; i < block_width; i++) {
        values[ch][i] = ops::exponential_of_negative(values[ch][i] - top[i]);
        total[i] += double(values[ch][i]);
      }
  }
  auto operator[](int64_t i) const {
    const auto exponential = [from = &values[0][i]](int64_t ch) { return from[ch * block_width]; };
    return Softmax<decltype(exponential)>{top[i], total[i], exponential};
  }
  alignas(64) float values[lanes][block_width], top[block_width];
  alignas(64) double total[block_width] = {};
};

template <class T>
auto softmax_of(const T* x, int64_t channels) {
  float top = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : top)
  for (int64_t ch = 0; ch < channels; ch++) top = std::max(top, float(x[ch]));
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t ch = 0; ch < channels; ch++) total += double(ops::exponential_of_negative(float(x[ch]) - top));
  const auto exponential = [x, top](int64_t ch) { return ops::exponential_of_negative(float(x[ch]) - top); };
  return Softmax<decltype(exponential)>{top, total, exponential};
}

/// Calls f(w, pixel, softmax) for each pixel of a row. A pixel's number of channels alone decides on the order of its sums, so that tiles
/// give the same bits.
template <class T, class F>
void each_softmax(const View& x, int64_t b, int64_t h, F f) {
  const T* const row = pixel_of<T>(x, b, h, 0);
  const int64_t step = x.strides[3], channels = x.dims[1], width = x.dims[3];
  if (channels > lanes) {
    for (int64_t w = 0; w < width; w++) f(w, row + w * step, softmax_of(row + w * step, channels));
    return;
  }
  for (int64_t first = 0; first < width; first += block_width) {
    const int64_t count = std::min(block_width, width - first);
    const PixelsBeside<T> pixels(row + first * step, step, channels, count);
    for (int64_t i = 0; i < count; i++) f(first + i, row + (first + i) * step, pixels[i]);
  }
}

struct CountLabels : RowSum {
  static void run(const KernelCall& c) {
    const int64_t ignored = CountLabelsAttrs::read(c.attrs).ignore_index;
    const double count = total(c, [&](int64_t b, int64_t h) {
      int64_t counted = 0;
      for (int64_t w = 0; w < c.ins[0].dims[3]; w++) counted += label_at(c.ins[0], b, h, w) != ignored;
      return double(counted);
    });
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
    const int64_t classes = x.dims[1];
    sum(c, terms.weight, [&](int64_t b, int64_t h) {
      double sum = 0;
      each_softmax<T>(x, b, h, [&](int64_t w, const T* pixel, const auto& s) {
        const int32_t label = label_at(labels, b, h, w);
        if (terms.takes(label, classes)) sum += terms.value(pixel, 1, classes, label, std::log(s.total) + double(s.top));
      });
      return sum;
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
    each_row_of(x, [&](int64_t b, int64_t h) {
      each_softmax<T>(x, b, h, [&](int64_t w, const T*, const auto& s) {
        const int32_t label = label_at(labels, b, h, w);
        T* const gradient = pixel_of<T>(dx, b, h, w);
        if (!terms.takes(label, classes)) {
          std::fill_n(gradient, classes, T(0.0f));
          return;
        }
        for (int64_t ch = 0; ch < classes; ch++)
          gradient[ch] = T(float(terms.slope(double(s.exponential(ch)) / s.total, ch, classes, label, all)));
      });
    });
  }
};

struct SoftmaxXent : RowSum {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1];
    const ops::Xent<float> xent(c);
    sum(c, xent.scale(), [&](int64_t b, int64_t h) {
      double sum = 0;
      each_softmax<T>(x, b, h, [&](int64_t w, const T* pixel, const auto& s) {
        const int32_t label = label_at(labels, b, h, w);
        if (xent.takes(label, x.dims[1])) sum += std::log(s.total) + double(s.top) - double(pixel[label]);
      });
      return sum;
    });
  }
};

struct SoftmaxXentBackward : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &labels = c.ins[1], &dx = c.outs[0];
    const ops::Xent<float> xent(c);
    const double scale = xent.scale();
    const int64_t classes = x.dims[1];
    each_row_of(x, [&](int64_t b, int64_t h) {
      each_softmax<T>(x, b, h, [&](int64_t w, const T*, const auto& s) {
        const int32_t label = label_at(labels, b, h, w);
        T* const gradient = pixel_of<T>(dx, b, h, w);
        if (!xent.takes(label, classes)) {
          std::fill_n(gradient, classes, T(0.0f));
          return;
        }
        const float share = float(scale / s.total), labelled = s.exponential(label);
        for (int64_t ch = 0; ch < classes; ch++) gradient[ch] = T(s.exponential(ch) * share);
        gradient[label] = T(float((double(labelled) / s.total - 1) * scale));
      });
    });
  }
};

/// The factor of a pixel in a call with a mask, or 1.
struct Factors {
  const View* given;
  explicit Factors(const KernelCall& c) : given(c.n_ins > 2 ? &c.ins[2] : nullptr) {}
  float at(int64_t b, int64_t h, int64_t w) const { return given ? *pixel_of(*given, b, h, w) : 1.0f; }
};

struct SoftXent : RowSum {
  template <class T>
  static void run(const KernelCall& c) {
    const View& x = c.ins[0];
    const ops::SoftXentTerms terms(c);
    const Factors factors(c);
    const int64_t classes = x.dims[1];
    sum(c, terms.scale, [&](int64_t b, int64_t h) {
      double sum = 0;
      each_softmax<T>(x, b, h, [&](int64_t w, const T* pixel, const auto& s) {
        const float* target = pixel_of(c.ins[1], b, h, w);
        const double log_total = std::log(s.total) + double(s.top), factor = double(factors.at(b, h, w));
        for (int64_t ch = 0; ch < classes; ch++) sum += factor * terms.share(double(target[ch]), classes) * (log_total - double(pixel[ch]));
      });
      return sum;
    });
  }
};

struct SoftXentBackward : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &dx = c.outs[0];
    const ops::SoftXentTerms terms(c);
    const Factors factors(c);
    const int64_t classes = x.dims[1];
    each_row_of(x, [&](int64_t b, int64_t h) {
      each_softmax<T>(x, b, h, [&](int64_t w, const T*, const auto& s) {
        const float* target = pixel_of(c.ins[1], b, h, w);
        T* const gradient = pixel_of<T>(dx, b, h, w);
        double all = 0;
        const double scale = terms.scale * double(factors.at(b, h, w));
        for (int64_t ch = 0; ch < classes; ch++) all += terms.share(double(target[ch]), classes);
        for (int64_t ch = 0; ch < classes; ch++)
          gradient[ch] = T(float(scale * (double(s.exponential(ch)) / s.total * all - terms.share(double(target[ch]), classes))));
      });
    });
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
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++) {
        const int64_t b = row / x.dims[2], h = row % x.dims[2];
        each_softmax<T>(x, b, h, [&](int64_t w, const T* pixel, const auto& s) {
          const int32_t label = label_at(labels, b, h, w);
          if (label < 0 || label >= ops::dice_labels(classes) || label == ignored) return;
          if (classes == 1) {
            const double yes = ops::dice_sigmoid(double(pixel[0]));
            own[0] += label * yes;
            own[1] += yes;
            own[2] += label;
            return;
          }
          for (int64_t k = 0; k < classes; k++) own[classes + k] += double(s.exponential(k)) / s.total;
          own[label] += double(s.exponential(label)) / s.total;
          own[2 * classes + label]++;
        });
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
    each_row_of(x, [&](int64_t b, int64_t h) {
      each_softmax<T>(x, b, h, [&](int64_t w, const T* pixel, const auto& s) {
        const int32_t label = label_at(labels, b, h, w);
        T* const gradient = pixel_of<T>(dx, b, h, w);
        if (label < 0 || label >= ops::dice_labels(classes) || label == ignored) {
          std::fill_n(gradient, classes, T(0.0f));
          return;
        }
        if (classes == 1) {
          const double yes = ops::dice_sigmoid(double(pixel[0]));
          gradient[0] = T(float(yes * (1 - yes) * (double(given[0]) + label * double(shared[0]))));
          return;
        }
        const auto p = [&](int64_t k) { return double(s.exponential(k)) / s.total; };
        const auto slope = [&](int64_t k) { return double(given[k]) + (k == label ? double(shared[k]) : 0); };
        double mean = 0;
        for (int64_t k = 0; k < classes; k++) mean += p(k) * slope(k);
        for (int64_t k = 0; k < classes; k++) gradient[k] = T(float(p(k) * (slope(k) - mean)));
      });
    });
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
    const Factors factors(c);
    const bool whole_rows = !factors.given && dense_rows(x) && (c.n_ins == 1 || dense_rows(c.ins[1]));
    const int64_t runs = whole_rows ? 1 : x.dims[3], length = whole_rows ? x.dims[3] * x.dims[1] : x.dims[1];
    const float constant = float(a.constant);
    sum(c, a.weight / double(a.count), [&, loss = ops::loss_of<Loss>(c.attrs)](int64_t b, int64_t h) {
      double total = 0;
      for (int64_t run = 0; run < runs; run++) {
        double part = 0;
        const T* const value = pixel_of<T>(x, b, h, run);
        if (c.n_ins > 1) {
          const float* const wanted = pixel_of(c.ins[1], b, h, run);
#pragma omp simd reduction(+ : part)
          for (int64_t i = 0; i < length; i++) part += double(loss.value(float(value[i]), wanted[i]));
        } else {
#pragma omp simd reduction(+ : part)
          for (int64_t i = 0; i < length; i++) part += double(loss.value(float(value[i]), constant));
        }
        total += part * double(factors.at(b, h, run));
      }
      return total;
    });
  }
};

template <class Loss>
struct ElementLossBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const auto a = ops::ElementLossAttrs::read(c.attrs);
    const float scale = float(a.weight / double(a.count)), constant = float(a.constant);
    const auto slope = [scale, loss = ops::loss_of<Loss>(c.attrs)](float x, float t) { return scale * loss.slope(x, t); };
    if (c.n_ins > 2) return with_element(c.ins[0], [&](auto element) { by_pixels<decltype(element)>(c, slope); });
    if (c.n_ins > 1)
      each_run<3>({&c.outs[0], &c.ins[0], &c.ins[1]}, [slope](Pointers<3> at, int64_t n) {
        float *const dx = at[0], *const x = at[1], *const target = at[2];
        const auto function = slope;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = function(x[i], target[i]);
      });
    else
      each_run<2>({&c.outs[0], &c.ins[0]}, [slope, constant](Pointers<2> at, int64_t n) {
        float *const dx = at[0], *const x = at[1];
        const auto function = slope;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = function(x[i], constant);
      });
  }

  /// dx = slope(x, target)·factor of each pixel.
  template <class T, class Slope>
  static void by_pixels(const KernelCall& c, Slope slope) {
    const View& dx = c.outs[0];
    const Factors factors(c);
    each_row_of(dx, [&](int64_t b, int64_t h) {
      for (int64_t w = 0; w < dx.dims[3]; w++) {
        const T* const x = pixel_of<T>(c.ins[0], b, h, w);
        const float* const target = pixel_of(c.ins[1], b, h, w);
        T* const gradient = pixel_of<T>(dx, b, h, w);
        const float factor = factors.at(b, h, w);
        for (int64_t ch = 0; ch < dx.dims[1]; ch++) gradient[ch] = T(factor * slope(float(x[ch]), target[ch]));
      }
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
