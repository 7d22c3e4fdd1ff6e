// Softmax cross-entropy (per image and per pixel) and the losses per element, each with its gradient.
#include <cmath>
#include <limits>
#include <vector>

#include "ops/loss.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Softmax of one pixel's channels: exp(x - top) / total.
struct Softmax {
  double top = -std::numeric_limits<double>::infinity(), total = 0;
};

template <class T>
Softmax softmax_of(const Tensor<T>& x, int64_t b, int64_t h, int64_t w) {
  Softmax s;
  for (int64_t c = 0; c < x.view().dims[1]; c++) s.top = std::max(s.top, double(x.at(b, c, h, w)));
  for (int64_t c = 0; c < x.view().dims[1]; c++) s.total += std::exp(double(x.at(b, c, h, w)) - s.top);
  return s;
}

/// Calls f(b, h, w, label) for each pixel whose label is taken, in local coordinates.
template <class Taken, class F>
void each_labelled(const KernelCall& c, const Taken& xent, F f) {
  const View& x = c.ins[0];
  const Tensor<int32_t> labels(c.ins[1]);
  for (int64_t b = 0; b < x.dims[0]; b++)
    for (int64_t h = 0; h < x.dims[2]; h++)
      for (int64_t w = 0; w < x.dims[3]; w++)
        if (const int32_t label = labels.at(b, 0, h, w); xent.takes(label, x.dims[1])) f(b, h, w, label);
}

struct CountLabels {
  template <class T>
  static void run(const KernelCall& c) {
    const int64_t ignored = CountLabelsAttrs::read(c.attrs).ignore_index;
    const Tensor<int32_t> labels(c.ins[0]);
    int64_t count = 0;
    each_pixel(c.ins[0], [&](int64_t b, int64_t h, int64_t w) { count += labels.global(b, 0, h, w) != ignored; });
    const Tensor<T> counted(c.outs[0]);
    counted[0] = T(std::fmod(double(count), ops::COUNT_PIECE));
    counted[1] = T(std::floor(double(count) / ops::COUNT_PIECE));
  }
};

struct CountClasses {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = CountClassesAttrs::read(c.attrs);
    const Tensor<int32_t> labels(c.ins[0]);
    std::vector<int64_t> counts(size_t(a.classes), 0);
    each_pixel(c.ins[0], [&](int64_t b, int64_t h, int64_t w) {
      const int32_t label = labels.global(b, 0, h, w);
      if (label >= 0 && label < a.classes && label != a.ignore_index) counts[size_t(label)]++;
    });
    const Tensor<T> counted(c.outs[0]);
    for (int64_t k = 0; k < a.classes; k++) {
      counted[k] = T(counts[size_t(k)] % int64_t(ops::COUNT_PIECE));
      counted[a.classes + k] = T(counts[size_t(k)] / int64_t(ops::COUNT_PIECE));
    }
  }
};

struct WeighClasses {
  template <class T>
  static void run(const KernelCall& c) {
    const int64_t classes = c.ins[0].dims[1];
    const Tensor<T> counted(c.ins[0]), factors(c.outs[0]);
    const auto weight = [&](int64_t k) { return c.n_attrs > 0 ? c.attrs[k] : 1.0; };
    double total = 0;
    for (int64_t k = 0; k < classes; k++) total += weight(k) * ops::counted_number(&counted[k], &counted[classes + k]);
    for (int64_t k = 0; k < classes; k++) factors[k] = T(total > 0 ? weight(k) / total : 0);
  }
};

struct ClassXent {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]);
    const ops::ClassXentTerms<T> terms(c);
    double sum = 0;
    each_labelled(c, terms, [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      const Softmax s = softmax_of(x, b, h, w);
      sum += terms.value(&x.at(b, 0, h, w), x.view().strides[1], x.view().dims[1], label, s.top + std::log(s.total));
    });
    Tensor<T>(c.outs[0])[0] = T(terms.weight * sum);
  }
};

struct ClassXentBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dx(call.outs[0]);
    const ops::ClassXentTerms<T> terms(call);
    const int64_t classes = call.ins[0].dims[1];
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) { dx.global(b, c, h, w) = T(0); });
    each_labelled(call, terms, [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      const Softmax s = softmax_of(x, b, h, w);
      for (int64_t c = 0; c < classes; c++)
        dx.at(b, c, h, w) =
            T(terms.slope(std::exp(double(x.at(b, c, h, w)) - s.top) / s.total, c, classes, label, terms.all_factors(classes)));
    });
  }
};

struct SoftmaxXent {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]);
    const ops::Xent<T> xent(c);
    double sum = 0;
    each_labelled(c, xent, [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      const Softmax s = softmax_of(x, b, h, w);
      sum += s.top + std::log(s.total) - double(x.at(b, label, h, w));
    });
    Tensor<T>(c.outs[0])[0] = T(xent.weight * sum / xent.number());
  }
};

struct SoftmaxXentBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dx(call.outs[0]);
    const ops::Xent<T> xent(call);
    const double scale = xent.scale();
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) { dx.global(b, c, h, w) = T(0); });
    each_labelled(call, xent, [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      const Softmax s = softmax_of(x, b, h, w);
      for (int64_t c = 0; c < call.ins[0].dims[1]; c++)
        dx.at(b, c, h, w) = T((std::exp(double(x.at(b, c, h, w)) - s.top) / s.total - (c == label ? 1 : 0)) * scale);
    });
  }
};

/// The factor of a pixel in a call with a mask, or 1, in local coordinates.
template <class T>
double factor_at(const KernelCall& c, int64_t b, int64_t h, int64_t w) {
  return c.n_ins > 2 ? double(Tensor<T>(c.ins[2]).at(b, 0, h, w)) : 1.0;
}

struct SoftXent {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), target(call.ins[1]);
    const ops::SoftXentTerms terms(call);
    const View& v = call.ins[0];
    double sum = 0;
    for (int64_t b = 0; b < v.dims[0]; b++)
      for (int64_t h = 0; h < v.dims[2]; h++)
        for (int64_t w = 0; w < v.dims[3]; w++) {
          const Softmax s = softmax_of(x, b, h, w);
          for (int64_t c = 0; c < v.dims[1]; c++)
            sum += factor_at<T>(call, b, h, w) * terms.share(double(target.at(b, c, h, w)), v.dims[1]) *
                   (s.top + std::log(s.total) - double(x.at(b, c, h, w)));
        }
    Tensor<T>(call.outs[0])[0] = T(terms.scale * sum);
  }
};

struct SoftXentBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), target(call.ins[1]), dx(call.outs[0]);
    const ops::SoftXentTerms terms(call);
    const View& v = call.ins[0];
    for (int64_t b = 0; b < v.dims[0]; b++)
      for (int64_t h = 0; h < v.dims[2]; h++)
        for (int64_t w = 0; w < v.dims[3]; w++) {
          const Softmax s = softmax_of(x, b, h, w);
          double all = 0;
          const double scale = terms.scale * factor_at<T>(call, b, h, w);
          for (int64_t c = 0; c < v.dims[1]; c++) all += terms.share(double(target.at(b, c, h, w)), v.dims[1]);
          for (int64_t c = 0; c < v.dims[1]; c++)
            dx.at(b, c, h, w) = T(scale * (std::exp(double(x.at(b, c, h, w)) - s.top) / s.total * all -
                                           terms.share(double(target.at(b, c, h, w)), v.dims[1])));
        }
  }
};

struct LabelNumbers {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<int32_t> labels(c.ins[0]);
    const Tensor<T> y(c.outs[0]);
    each_pixel(c.outs[0], [&](int64_t b, int64_t h, int64_t w) { y.global(b, 0, h, w) = T(labels.global(b, 0, h, w)); });
  }
};

/// The labels that a call of Dice takes.
struct DiceLabels {
  int64_t ignored;
  explicit DiceLabels(const KernelCall& c) : ignored(DiceSumsAttrs::read(c.attrs).ignore_index) {}
  bool takes(int32_t label, int64_t channels) const { return label >= 0 && label < ops::dice_labels(channels) && label != ignored; }
};

struct DiceSums {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]);
    const int64_t classes = call.ins[0].dims[1];
    std::vector<double> all(size_t(3 * classes), 0);
    double* const sums = all.data();
    each_labelled(call, DiceLabels(call), [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      if (classes == 1) {
        const double yes = ops::dice_sigmoid(double(x.at(b, 0, h, w)));
        sums[0] += label * yes;
        sums[1] += yes;
        sums[2] += label;
        return;
      }
      const Softmax s = softmax_of(x, b, h, w);
      const auto p = [&](int64_t c) { return std::exp(double(x.at(b, c, h, w)) - s.top) / s.total; };
      for (int64_t c = 0; c < classes; c++) sums[classes + c] += p(c);
      sums[label] += p(label);
      sums[2 * classes + label]++;
    });
    for (int64_t i = 0; i < 3 * classes; i++) Tensor<T>(call.outs[0])[i] = T(sums[i]);
  }
};

struct DiceSumsBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), slopes(call.ins[2]), dx(call.outs[0]);
    const int64_t classes = call.ins[0].dims[1];
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) { dx.global(b, c, h, w) = T(0); });
    each_labelled(call, DiceLabels(call), [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      if (classes == 1) {
        const double yes = ops::dice_sigmoid(double(x.at(b, 0, h, w)));
        dx.at(b, 0, h, w) = T(yes * (1 - yes) * (double(slopes[1]) + label * double(slopes[0])));
        return;
      }
      const Softmax s = softmax_of(x, b, h, w);
      const auto p = [&](int64_t c) { return std::exp(double(x.at(b, c, h, w)) - s.top) / s.total; };
      const auto slope = [&](int64_t c) { return double(slopes[classes + c]) + (c == label ? double(slopes[c]) : 0); };
      double mean = 0;
      for (int64_t c = 0; c < classes; c++) mean += p(c) * slope(c);
      for (int64_t c = 0; c < classes; c++) dx.at(b, c, h, w) = T(p(c) * (slope(c) - mean));
    });
  }
};

struct Dice {
  template <class T>
  static void run(const KernelCall& c) {
    Tensor<T>(c.outs[0])[0] = T(ops::DiceTerms<T>(c).value());
  }
};

struct DiceBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::DiceTerms<T> terms(c);
    const Tensor<T> slopes(c.outs[0]);
    for (int64_t k = 0; k < terms.classes; k++) {
      slopes[k] = T(terms.slope_of_shared(k));
      slopes[terms.classes + k] = T(terms.slope_of_given(k));
      slopes[2 * terms.classes + k] = T(0);
    }
  }
};

/// Calls f(b, c, h, w, x, t, factor) for each element, in whole-value coordinates.
template <class T, class F>
void each_compared(const KernelCall& call, double constant, F f) {
  const Tensor<T> x(call.ins[0]);
  each_element(call.ins[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
    f(b, c, h, w, double(x.global(b, c, h, w)), call.n_ins > 1 ? double(Tensor<T>(call.ins[1]).global(b, c, h, w)) : constant,
      call.n_ins > 2 ? double(Tensor<T>(call.ins[2]).global(b, 0, h, w)) : 1.0);
  });
}

template <class Loss>
struct ElementLoss {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = ops::ElementLossAttrs::read(call.attrs);
    const Loss loss = ops::loss_of<Loss>(call.attrs);
    double sum = 0;
    each_compared<T>(call, a.constant,
                     [&](int64_t, int64_t, int64_t, int64_t, double x, double t, double factor) { sum += factor * loss.value(x, t); });
    Tensor<T>(call.outs[0])[0] = T(a.weight * sum / double(a.count));
  }
};

template <class Loss>
struct ElementLossBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = ops::ElementLossAttrs::read(call.attrs);
    const Loss loss = ops::loss_of<Loss>(call.attrs);
    const Tensor<T> dx(call.outs[0]);
    each_compared<T>(call, a.constant, [&](int64_t b, int64_t c, int64_t h, int64_t w, double x, double t, double factor) {
      dx.global(b, c, h, w) = T(factor * a.weight * loss.slope(x, t) / double(a.count));
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

}  // namespace spillway::ref
