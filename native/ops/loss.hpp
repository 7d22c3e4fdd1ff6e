// Legality of cross-entropy: x [B,C,H,W], labels [B,1,H,W], loss [1]; and the losses per element as functions of an element and
// its target, one definition for all devices: a line of the table in staging/ops/loss.ts and a struct of its operator's name are a
// loss. One with options is made from its attributes.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
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
  return is_vector(c.outs[0], 2) ? Status{} : refuse(c, "what is counted must be [2]");
}

/// A count as two numbers, each small enough that floats add up those of all tiles without rounding.
constexpr double COUNT_PIECE = 4096;

/// Which labels a call of cross-entropy takes, and how many of the whole value's there are: its attributes say it, or, where labels may be
/// ignored, what was counted.
template <class Real>
struct Xent {
  double weight, count;
  int64_t ignored;
  const Real* counted;
  explicit Xent(const KernelCall& c)
      : weight(c.attrs[1]), count(c.attrs[0]), ignored(c.n_ins > 2 ? int_attr(c.attrs[0]) : INT64_MIN), counted(c.n_ins > 2 ? static_cast<const Real*>(c.ins[2].data) : nullptr) {}
  /// Where nothing is counted, nothing is added up either: by what it is divided does not matter.
  SPILLWAY_BOTH double number() const {
    if (counted == nullptr) return count;
    const double n = double(counted[0]) + double(counted[1]) * COUNT_PIECE;
    return n > 1 ? n : 1;
  }
  SPILLWAY_BOTH double scale() const { return weight / number(); }
  SPILLWAY_BOTH bool takes(int32_t label, int64_t classes) const { return label >= 0 && label < classes && label != ignored; }
};

/// What all losses per element begin with; a loss's own options follow.
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
    const double turning = gamma > 0 && m > 0 ? bce_with_logits{}.value(x, t) * gamma * std::pow(m, gamma - 1) * p * (1 - p) * (1 - 2 * t) : 0;
    return share(t) * (std::pow(m, gamma) * (p - t) + turning);
  }
};

}  // namespace element_loss

template <class Loss>
Loss loss_of(const double* attrs) {
  if constexpr (std::is_constructible_v<Loss, const double*>) return Loss(attrs);
  else return Loss{};
}

}  // namespace spillway::ops
