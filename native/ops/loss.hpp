// Legality of the losses and their gradients: x [B,C,H,W], labels [B,1,H,W] or a target like x, which may be left out,
// loss [1]; and the losses per element as functions of an element and its target, one definition for all devices.
#pragma once
#include <algorithm>
#include <cmath>

#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_loss(const KernelCall& c, bool labels) {
  if (c.n_ins == 1) return is_activation(c.ins[0]) ? Status{} : refuse(c, "x must be an activation");
  const View &x = c.ins[0], &target = c.ins[1];
  if (!is_activation(x) || !is_activation(target)) return refuse(c, "x and the target must be activations");
  if (labels ? !same_pixels(x, target) || target.dims[1] != 1 : !same_box(x, target))
    return refuse(c, labels ? "labels must be [B,1,H,W] at the pixels of x" : "the target must hold the box of x");
  return {};
}

inline Status check_loss_value(const KernelCall& c, bool labels) {
  if (Status s = check_loss(c, labels); !s.ok()) return s;
  return is_vector(c.outs[0], 1) ? Status{} : refuse(c, "the loss must be [1]");
}

inline Status check_loss_gradient(const KernelCall& c, bool labels) {
  if (Status s = check_loss(c, labels); !s.ok()) return s;
  return is_activation(c.outs[0]) && same_box(c.outs[0], c.ins[0]) ? Status{} : refuse(c, "dx must hold the box of x");
}

inline Status check_softmax_xent(const KernelCall& c) { return check_loss_value(c, true); }
inline Status check_softmax_xent_bwd(const KernelCall& c) { return check_loss_gradient(c, true); }
inline Status check_element_loss(const KernelCall& c) { return check_loss_value(c, false); }
inline Status check_element_loss_bwd(const KernelCall& c) { return check_loss_gradient(c, false); }

/// A loss per element: its value, and its slope along x.
struct SquaredError {
  SPILLWAY_BOTH static double value(double x, double t) { return (x - t) * (x - t); }
  SPILLWAY_BOTH static double slope(double x, double t) { return 2 * (x - t); }
};
struct AbsoluteError {
  SPILLWAY_BOTH static double value(double x, double t) { return std::abs(x - t); }
  SPILLWAY_BOTH static double slope(double x, double t) { return double(x > t) - double(x < t); }
};
/// In the form that neither overflows nor cancels.
struct BinaryCrossEntropy {
  SPILLWAY_BOTH static double value(double x, double t) { return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x))); }
  SPILLWAY_BOTH static double slope(double x, double t) {
    const double e = std::exp(-std::abs(x));
    return (x >= 0 ? 1 : e) / (1 + e) - t;
  }
};

}  // namespace spillway::ops
