// Legality of cross-entropy and Dice: x [B,C,H,W], labels [B,1,H,W], loss [1]. Losses per element are functions of an element and its
// target, one definition for all devices. R is the computing type. A line of the table in staging/ops/losses.ts and a struct of its
// operator's name are a loss. One with options is made from its attributes.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "ops/both.hpp"
#include "ops/check.hpp"
#include "ops/elementary.hpp"

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
  template <class R>
  SPILLWAY_BOTH R value(R x, R t) const {
    return (x - t) * (x - t);
  }
  template <class R>
  SPILLWAY_BOTH R slope(R x, R t) const {
    return 2 * (x - t);
  }
};

struct l1 {
  template <class R>
  SPILLWAY_BOTH R value(R x, R t) const {
    return std::abs(x - t);
  }
  template <class R>
  SPILLWAY_BOTH R slope(R x, R t) const {
    return R(x > t) - R(x < t);
  }
};

/// The probability that a logit states, and that of the other class: near 1, their difference from 1 would cancel.
template <class R>
struct Odds {
  R yes, no;
  SPILLWAY_BOTH explicit Odds(R x) {
    const R e = exponential_of_negative(x < 0 ? x : -x), larger = 1 / (1 + e), smaller = e / (1 + e);
    yes = x < 0 ? smaller : larger;
    no = x < 0 ? larger : smaller;
  }
  /// yes - t.
  SPILLWAY_BOTH R excess(R t) const { return yes * (1 - t) - no * t; }
};

/// In the form that neither overflows nor cancels.
struct bce_with_logits {
  template <class R>
  SPILLWAY_BOTH R value(R x, R t) const {
    return (x > 0 ? x : R(0)) - x * t + logarithm_of_one_more(exponential_of_negative(x < 0 ? x : -x));
  }
  template <class R>
  SPILLWAY_BOTH R slope(R x, R t) const {
    return Odds<R>(x).excess(t);
  }
};

struct huber {
  double delta;
  explicit huber(const double* attrs) : delta(HuberAttrs::read(attrs).delta) {}
  template <class R>
  SPILLWAY_BOTH R value(R x, R t) const {
    const R d = R(delta), e = std::abs(x - t), square = e * e / 2, line = d * (e - d / 2);
    return e <= d ? square : line;
  }
  template <class R>
  SPILLWAY_BOTH R slope(R x, R t) const {
    const R d = R(delta), e = x - t, above = e < -d ? -d : e;
    return e > d ? d : above;
  }
};

struct mean {
  template <class R>
  SPILLWAY_BOTH R value(R x, R t) const {
    return x - t;
  }
  template <class R>
  SPILLWAY_BOTH R slope(R, R) const {
    return 1;
  }
};

/// Lin et al. (2017), as torchvision's sigmoid_focal_loss: m is by how much an element is wrong.
struct focal {
  double balance, gamma;
  explicit focal(const double* attrs) : balance(FocalAttrs::read(attrs).balance), gamma(FocalAttrs::read(attrs).gamma) {}
  template <class R>
  SPILLWAY_BOTH static R wrong(const Odds<R>& p, R t) {
    const R m = p.yes * (1 - t) + p.no * t;
    return m < 0 ? R(0) : m;
  }
  template <class R>
  SPILLWAY_BOTH R share(R t) const {
    return R(balance) * t + R(1 - balance) * (1 - t);
  }
  template <class R>
  SPILLWAY_BOTH R value(R x, R t) const {
    return share(t) * power(wrong(Odds<R>(x), t), R(gamma)) * bce_with_logits{}.value(x, t);
  }
  template <class R>
  SPILLWAY_BOTH R slope(R x, R t) const {
    const Odds<R> p(x);
    const R m = wrong(p, t), less = power(m, R(gamma - 1));
    const R turning = bce_with_logits{}.value(x, t) * R(gamma) * less * p.yes * p.no * (1 - 2 * t);
    return share(t) * (power(m, R(gamma)) * p.excess(t) + (m > 0 ? turning : R(0)));
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
