// Legality of cross-entropy and Dice: x [B,C,H,W], labels [B,1,H,W], loss [1]; and the losses per element as functions of an element and
// its target, one definition for all devices: a line of the table in staging/ops/loss.ts and a struct of its operator's name are a
// loss. One with options is made from its attributes.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_labels(const KernelCall& c) {
  const View &x = c.ins[0], &labels = c.ins[1];
  if (!is_activation(x) || !is_activation(labels)) return refuse(c, "x and the labels must be activations");
  return same_pixels(x, labels) && labels.dims[1] == 1 ? Status{} : refuse(c, "labels must be [B,1,H,W] at the pixels of x");
}

inline Status check_softmax_xent(const KernelCall& c) {
  if (Status s = check_labels(c); !s.ok()) return s;
  return is_vector(c.outs[0], 1) ? Status{} : refuse(c, "the loss must be [1]");
}

inline Status check_softmax_xent_bwd(const KernelCall& c) {
  if (Status s = check_labels(c); !s.ok()) return s;
  return is_activation(c.outs[0]) && same_box(c.outs[0], c.ins[0]) ? Status{} : refuse(c, "dx must hold the box of x");
}

inline Status check_count_labels(const KernelCall& c) {
  const View& labels = c.ins[0];
  if (!is_activation(labels) || labels.dims[1] != 1) return refuse(c, "labels must be [B,1,H,W]");
  return is_vector(c.outs[0], 2) ? Status{} : refuse(c, "counted must be [2]");
}

inline Status check_count_classes(const KernelCall& c) {
  const View& labels = c.ins[0];
  if (!is_activation(labels) || labels.dims[1] != 1) return refuse(c, "labels must be [B,1,H,W]");
  return is_matrix(c.outs[0], 2, CountClassesAttrs::read(c.attrs).classes) ? Status{} : refuse(c, "counted must be [2,classes]");
}

inline Status check_class_factors(const KernelCall& c) {
  return is_vector(c.ins[2], c.ins[0].dims[1]) ? Status{} : refuse(c, "the factors must be [C]");
}

inline Status check_class_xent(const KernelCall& c) {
  if (Status s = check_softmax_xent(c); !s.ok()) return s;
  return check_class_factors(c);
}

inline Status check_class_xent_bwd(const KernelCall& c) {
  if (Status s = check_softmax_xent_bwd(c); !s.ok()) return s;
  return check_class_factors(c);
}

/// How many labels Dice knows: of one channel, which is compared with its sigmoid, no and yes.
SPILLWAY_BOTH constexpr int64_t dice_labels(int64_t channels) { return channels == 1 ? 2 : channels; }
SPILLWAY_BOTH inline double dice_sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

/// Class weights after `fields` others: none, or one for each class, not all of them 0.
inline Status check_class_weights(const KernelCall& c, int64_t fields, int64_t classes) {
  if (c.n_attrs == fields) return {};
  if (c.n_attrs != fields + classes) return refuse(c, "there must be a weight for each class");
  const double* const weights = c.attrs + fields;
  return std::any_of(weights, weights + classes, [](double w) { return w > 0; }) ? Status{}
                                                                                 : refuse(c, "a weight of a class must be above 0");
}

inline Status check_weigh_classes(const KernelCall& c) {
  const int64_t classes = c.ins[0].dims[1];
  if (!is_matrix(c.ins[0], 2, classes)) return refuse(c, "counted must be [2,C]");
  if (!is_vector(c.outs[0], classes)) return refuse(c, "the factors must be [C]");
  return check_class_weights(c, 0, classes);
}

inline Status check_label_numbers(const KernelCall& c) {
  return is_activation(c.ins[0]) && c.ins[0].dims[1] == 1 && same_box(c.outs[0], c.ins[0])
             ? Status{}
             : refuse(c, "labels and numbers must be [B,1,H,W]");
}

inline bool is_class_sums(const View& sums, const View& x) { return is_matrix(sums, 3, x.dims[1]); }

inline Status check_dice_sums(const KernelCall& c) {
  if (Status s = check_labels(c); !s.ok()) return s;
  return is_class_sums(c.outs[0], c.ins[0]) ? Status{} : refuse(c, "the sums must be [3,C]");
}

inline Status check_dice_sums_bwd(const KernelCall& c) {
  if (Status s = check_softmax_xent_bwd(c); !s.ok()) return s;
  return is_class_sums(c.ins[2], c.ins[0]) ? Status{} : refuse(c, "the slopes must be [3,C]");
}

constexpr int64_t DICE_FIELDS = 2;

inline Status check_dice(const KernelCall& c) {
  const View& sums = c.ins[0];
  if (!is_class_sums(sums, sums)) return refuse(c, "the sums must be [3,C]");
  if (!is_vector(c.outs[0], 1)) return refuse(c, "the loss must be [1]");
  return check_class_weights(c, DICE_FIELDS, sums.dims[1]);
}

inline Status check_dice_bwd(const KernelCall& c) {
  const View& sums = c.ins[0];
  if (!is_class_sums(sums, sums) || !is_class_sums(c.outs[0], sums)) return refuse(c, "the sums and slopes must be [3,C]");
  return check_class_weights(c, DICE_FIELDS, sums.dims[1]);
}

/// A count as two numbers, each small enough that floats add up those of all tiles without rounding.
constexpr double COUNT_PIECE = 4096;

template <class Real>
SPILLWAY_BOTH double counted_number(const Real* low, const Real* high) {
  return double(*low) + double(*high) * COUNT_PIECE;
}

/// Cross-entropy with weights of classes and smoothed labels, of one pixel after the other.
template <class Real>
struct ClassXentTerms {
  double weight, smoothing;
  int64_t ignored;
  const Real* factors;
  explicit ClassXentTerms(const KernelCall& c)
      : weight(ClassXentAttrs::read(c.attrs).weight),
        smoothing(ClassXentAttrs::read(c.attrs).label_smoothing),
        ignored(ClassXentAttrs::read(c.attrs).ignore_index),
        factors(static_cast<const Real*>(c.ins[2].data)) {}
  SPILLWAY_BOTH bool takes(int32_t label, int64_t classes) const { return label >= 0 && label < classes && label != ignored; }
  /// `log_total` is the logarithm of the sum of all exp(x).
  template <class T>
  SPILLWAY_BOTH double value(const T* x, int64_t step, int64_t classes, int32_t label, double log_total) const {
    double smooth = 0;
    for (int64_t ch = 0; smoothing > 0 && ch < classes; ch++) smooth += double(factors[ch]) * (log_total - double(x[ch * step]));
    return (1 - smoothing) * double(factors[label]) * (log_total - double(x[label * step])) + smoothing / double(classes) * smooth;
  }
  SPILLWAY_BOTH double all_factors(int64_t classes) const {
    double all = 0;
    for (int64_t ch = 0; smoothing > 0 && ch < classes; ch++) all += double(factors[ch]);
    return all;
  }
  /// `p` is the softmax of channel `ch`, `all` the result of all_factors.
  SPILLWAY_BOTH double slope(double p, int64_t ch, int64_t classes, int32_t label, double all) const {
    const double hard = double(factors[label]) * (p - (ch == label ? 1 : 0));
    return weight * ((1 - smoothing) * hard + smoothing / double(classes) * (p * all - double(factors[ch])));
  }
};

/// The legal labels of a cross-entropy call, and their number in the whole value: an attribute, or, if labels may be ignored, a count.
template <class Real>
struct Xent {
  double weight, count;
  int64_t ignored;
  const Real* counted;
  explicit Xent(const KernelCall& c)
      : weight(c.attrs[1]),
        count(c.attrs[0]),
        ignored(c.n_ins > 2 ? int_attr(c.attrs[0]) : INT64_MIN),
        counted(c.n_ins > 2 ? static_cast<const Real*>(c.ins[2].data) : nullptr) {}
  /// If no label counts, no terms are added either, so the divisor does not matter.
  SPILLWAY_BOTH double number() const {
    if (counted == nullptr) return count;
    const double n = counted_number(counted, counted + 1);
    return n > 1 ? n : 1;
  }
  SPILLWAY_BOTH double scale() const { return weight / number(); }
  SPILLWAY_BOTH bool takes(int32_t label, int64_t classes) const { return label >= 0 && label < classes && label != ignored; }
};

/// Cross-entropy to shares of classes, smoothed.
struct SoftXentTerms {
  double scale, smoothing;
  explicit SoftXentTerms(const KernelCall& c)
      : scale(SoftXentAttrs::read(c.attrs).weight / double(SoftXentAttrs::read(c.attrs).count)),
        smoothing(SoftXentAttrs::read(c.attrs).label_smoothing) {}
  SPILLWAY_BOTH double share(double target, int64_t classes) const { return (1 - smoothing) * target + smoothing / double(classes); }
};

/// Dice, for each class: the prediction at its labels, the prediction in all, the number of its labels. `class_weights` are those of
/// the attributes, at any address.
template <class Real>
struct DiceTerms {
  double smooth, weight;
  int64_t classes;
  const Real* sums;
  const double* class_weights;
  /// The total of the weights: without any, each class is 1.
  double total;
  DiceTerms(const KernelCall& c, const double* class_weights_)
      : smooth(DiceAttrs::read(c.attrs).smooth),
        weight(DiceAttrs::read(c.attrs).weight),
        classes(c.ins[0].dims[1]),
        sums(static_cast<const Real*>(c.ins[0].data)),
        class_weights(c.n_attrs > DICE_FIELDS ? class_weights_ : nullptr),
        total(c.n_attrs > DICE_FIELDS ? std::accumulate(c.attrs + DICE_FIELDS, c.attrs + c.n_attrs, 0.0) : double(classes)) {}
  explicit DiceTerms(const KernelCall& c) : DiceTerms(c, c.attrs + DICE_FIELDS) {}
  SPILLWAY_BOTH double class_weight(int64_t k) const { return class_weights != nullptr ? class_weights[k] : 1; }
  SPILLWAY_BOTH double shared(int64_t k) const { return 2 * double(sums[k]) + smooth; }
  SPILLWAY_BOTH double all(int64_t k) const { return double(sums[classes + k]) + double(sums[2 * classes + k]) + smooth; }
  SPILLWAY_BOTH double value() const {
    double overlap = 0;
    for (int64_t k = 0; k < classes; k++) overlap += class_weight(k) * (all(k) > 0 ? shared(k) / all(k) : 1);
    return weight * (1 - overlap / total);
  }
  SPILLWAY_BOTH double slope_of_shared(int64_t k) const { return all(k) > 0 ? -2 * weight / total * class_weight(k) / all(k) : 0; }
  SPILLWAY_BOTH double slope_of_given(int64_t k) const {
    return all(k) > 0 ? weight / total * class_weight(k) * shared(k) / (all(k) * all(k)) : 0;
  }
};

/// The first attributes of all losses per element; a loss's own options follow.
using ElementLossAttrs = MseAttrs;

namespace element_loss {

struct mse {
  SPILLWAY_BOTH double value(double x, double t) const { return (x - t) * (x - t); }
  SPILLWAY_BOTH double slope(double x, double t) const { return 2 * (x - t); }
};

struct l1 {
  SPILLWAY_BOTH double value(double x, double t) const { return std::abs(x - t); }
  SPILLWAY_BOTH double slope(double x, double t) const { return double(x > t) - double(x < t); }
};

/// In the form that neither overflows nor cancels.
struct bce_with_logits {
  SPILLWAY_BOTH double value(double x, double t) const { return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x))); }
  SPILLWAY_BOTH double slope(double x, double t) const {
    const double e = std::exp(-std::abs(x));
    return (x >= 0 ? 1 : e) / (1 + e) - t;
  }
};

struct huber {
  double delta;
  explicit huber(const double* attrs) : delta(HuberAttrs::read(attrs).delta) {}
  SPILLWAY_BOTH double value(double x, double t) const {
    const double e = std::abs(x - t);
    return e <= delta ? e * e / 2 : delta * (e - delta / 2);
  }
  SPILLWAY_BOTH double slope(double x, double t) const {
    const double e = x - t;
    return e > delta ? delta : e < -delta ? -delta : e;
  }
};

struct mean {
  SPILLWAY_BOTH double value(double x, double t) const { return x - t; }
  SPILLWAY_BOTH double slope(double, double) const { return 1; }
};

/// Lin et al. (2017), as torchvision's sigmoid_focal_loss: m is by how much an element is wrong.
struct focal {
  double balance, gamma;
  explicit focal(const double* attrs) : balance(FocalAttrs::read(attrs).balance), gamma(FocalAttrs::read(attrs).gamma) {}
  SPILLWAY_BOTH static double sigmoid(double x) {
    const double e = std::exp(-std::abs(x));
    return (x >= 0 ? 1 : e) / (1 + e);
  }
  SPILLWAY_BOTH static double wrong(double p, double t) { return std::max(p + t - 2 * p * t, 0.0); }
  SPILLWAY_BOTH double share(double t) const { return balance * t + (1 - balance) * (1 - t); }
  SPILLWAY_BOTH double value(double x, double t) const {
    return share(t) * std::pow(wrong(sigmoid(x), t), gamma) * bce_with_logits{}.value(x, t);
  }
  SPILLWAY_BOTH double slope(double x, double t) const {
    const double p = sigmoid(x), m = wrong(p, t);
    const double turning =
        gamma > 0 && m > 0 ? bce_with_logits{}.value(x, t) * gamma * std::pow(m, gamma - 1) * p * (1 - p) * (1 - 2 * t) : 0;
    return share(t) * (std::pow(m, gamma) * (p - t) + turning);
  }
};

}  // namespace element_loss

template <class Loss>
Loss loss_of(const double* attrs) {
  if constexpr (std::is_constructible_v<Loss, const double*>)
    return Loss(attrs);
  else
    return Loss{};
}

}  // namespace spillway::ops
