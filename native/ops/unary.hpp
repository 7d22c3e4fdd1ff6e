// Activations without parameters as functions of an element, one definition for all devices: R is the computing type of a device. In:
// x, or for a gradient the operands of the op table, and dy. Invariant: the bits of a result depend only on the element. A line of
// staging/ops/unary.ts and a struct of its kind's name are an operator.
#pragma once
#include <cmath>

#include "gen/ops.h"
#include "ops/elementary.hpp"

namespace spillway::ops {

/// A NaN passes through rectifiers, as in PyTorch; infinities do not become NaN.
struct Rectifier {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x <= 0 ? R(0) : x;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return y <= 0 ? R(0) : dy;
  }
};
struct LeakyRectifier {
  double slope;
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x * (x <= 0 ? R(slope) : R(1));
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy * (y <= 0 ? R(slope) : R(1));
  }
};

namespace unary {

struct relu {
  template <class Body>
  static void with(const double* attrs, const Body& body) {
    const double slope = ReluAttrs::read(attrs).slope;
    if (slope == 0)
      body(Rectifier{});
    else
      body(LeakyRectifier{slope});
  }
};

struct sigmoid {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return logistic(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy * y * (R(1) - y);
  }
};

struct tanh {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return hyperbolic_tangent(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy * (R(1) - y * y);
  }
};

struct relu6 {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    const R positive = x <= 0 ? R(0) : x;
    return positive >= 6 ? R(6) : positive;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return y <= 0 || y >= 6 ? R(0) : dy;
  }
};

struct hard_swish {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x * relu6{}.value(x + 3) / 6;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    const R slope = x / 3 + R(0.5), above = x >= 3 ? R(1) : slope;
    return dy * (x <= -3 ? R(0) : above);
  }
};

struct hard_sigmoid {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return relu6{}.value(x + 3) / 6;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    const R inner = dy / 6;
    return y <= 0 || y >= 1 ? R(0) : inner;
  }
};

struct silu {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x * logistic(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    const R s = logistic(x);
    return dy * (s * (1 + x * (1 - s)));
  }
};

struct gelu {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x * normal_share(x, exponential_of_negative(x * x * R(-0.5)));
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    const R e = exponential_of_negative(x * x * R(-0.5));
    return dy * (normal_share(x, e) + x * R(0.3989422804014327) * e);
  }
};

/// The normal share by its approximation with tanh: x·σ(2u) = x·(1 + tanh(u)) / 2.
struct gelu_tanh {
  template <class R>
  SPILLWAY_BOTH static R share(R x) {
    return logistic(x * (R(1.5957691216057308) + R(0.07135481627260025) * x * x));
  }
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x * share(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    const R s = share(x), slope = R(1.5957691216057308) + R(0.21406444881780073) * x * x;
    return dy * (s * (1 + x * slope * (1 - s)));
  }
};

/// From 20 on, floats cannot tell log(1 + e^x) from x, and powers of larger numbers are not finite.
template <class R>
SPILLWAY_BOTH inline R below_twenty(R x) {
  return x > 20 ? R(20) : x;
}

struct softplus {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return logarithm_of_one_more(exponential_of_negative(x < 0 ? x : -x)) + (x > 0 ? x : R(0));
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    return dy * logistic(x);
  }
};

/// tanh(log(1 + e)) = n / (n + 2), n = e·(e + 2).
struct mish {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    const R e = exponential(below_twenty(x)), n = e * (e + 2);
    return x * (n / (n + 2));
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    const R e = exponential(below_twenty(x)), n = e * (e + 2), t = n / (n + 2);
    return dy * (t + x * (1 - t * t) * (e / (1 + e)));
  }
};

struct Elu {
  double alpha;
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    const R below = R(alpha) * exponential_of_negative_less_one(x);
    return x > 0 ? x : below;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    const R below = y + R(alpha);
    return dy * (y > 0 ? R(1) : below);
  }
};
struct elu {
  template <class Body>
  static void with(const double* attrs, const Body& body) {
    body(Elu{EluAttrs::read(attrs).alpha});
  }
};

/// A NaN passes through.
struct Clamp {
  double low, high;
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    const R above = x <= R(low) ? R(low) : x;
    return above >= R(high) ? R(high) : above;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return y <= R(low) || y >= R(high) ? R(0) : dy;
  }
};
struct clamp {
  template <class Body>
  static void with(const double* attrs, const Body& body) {
    const auto a = ClampAttrs::read(attrs);
    body(Clamp{a.low, a.high});
  }
};

struct Affine {
  double factor, shift;
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return R(factor) * x + R(shift);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R, R dy) const {
    return R(factor) * dy;
  }
};
struct affine {
  template <class Body>
  static void with(const double* attrs, const Body& body) {
    const auto a = AffineAttrs::read(attrs);
    body(Affine{a.factor, a.shift});
  }
};

struct abs {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x < 0 ? -x : x;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    const R above = x > 0 ? R(1) : R(0), below = x < 0 ? R(1) : R(0);
    return dy * (above - below);
  }
};

struct exp {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return exponential(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy * y;
  }
};

struct log {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return logarithm(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    return dy / x;
  }
};

struct sqrt {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return std::sqrt(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy / (2 * y);
  }
};

struct square {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x * x;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    return 2 * x * dy;
  }
};

struct reciprocal {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return 1 / x;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return -dy * y * y;
  }
};

}  // namespace unary

namespace detail {
/// A function with attributes says itself which it is; the others are told by their type. (No `requires` either.)
template <class F, class Body>
auto with_unary(const double* attrs, const Body& body, int) -> decltype(F::with(attrs, body)) {
  F::with(attrs, body);
}
template <class F, class Body>
void with_unary(const double*, const Body& body, long) {
  body(F{});
}
}  // namespace detail

/// Calls body(function) with the function that these attributes say.
template <class F, class Body>
void with_unary(const double* attrs, const Body& body) {
  detail::with_unary<F>(attrs, body, 0);
}

}  // namespace spillway::ops
