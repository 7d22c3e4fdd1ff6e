// Activations without parameters as functions of an element, one definition for all devices: R is what a device computes in. In: x, or
// for a gradient what the op table says that it reads, and dy. Invariant: the bits of a result depend on nothing but the element.
// A line of staging/ops/unary.ts and a struct of its kind's name are an operator.
#pragma once
#include <cmath>
#include <type_traits>

#include "gen/ops.h"
#include "ops/both.hpp"

namespace spillway::ops {

/// `simd`: which of both, value and gradient, call no function of a library, so that loops over them are vectorised.
struct Simple {
  static constexpr bool simd_value = true, simd_gradient = true;
};
struct Transcendental {
  static constexpr bool simd_value = false, simd_gradient = true;
};

/// A NaN passes through rectifiers, as in PyTorch; infinities do not become NaN.
struct Rectifier : Simple {
  template <class R>
  SPILLWAY_BOTH R value(R x) const { return x <= 0 ? R(0) : x; }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const { return y <= 0 ? R(0) : dy; }
};
/// A product that only one side needs would not be vectorised: it may raise an exception.
struct LeakyRectifier : Simple {
  double slope;
  template <class R>
  SPILLWAY_BOTH R value(R x) const { return x * (x <= 0 ? R(slope) : R(1)); }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const { return dy * (y <= 0 ? R(slope) : R(1)); }
};

namespace unary {

struct relu {
  template <class Body>
  static void with(const double* attrs, const Body& body) {
    const double slope = ReluAttrs::read(attrs).slope;
    if (slope == 0) body(Rectifier{});
    else body(LeakyRectifier{{}, slope});
  }
};

struct sigmoid : Transcendental {
  template <class R>
  SPILLWAY_BOTH R value(R x) const { return R(1) / (R(1) + std::exp(-x)); }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const { return dy * y * (R(1) - y); }
};

struct tanh : Transcendental {
  template <class R>
  SPILLWAY_BOTH R value(R x) const { return std::tanh(x); }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const { return dy * (R(1) - y * y); }
};

struct relu6 : Simple {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    const R positive = x <= 0 ? R(0) : x;
    return positive >= 6 ? R(6) : positive;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const { return y <= 0 || y >= 6 ? R(0) : dy; }
};

struct hard_swish : Simple {
  template <class R>
  SPILLWAY_BOTH R value(R x) const { return x * relu6{}.value(x + 3) / 6; }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    const R slope = x / 3 + R(0.5), above = x >= 3 ? R(1) : slope;
    return dy * (x <= -3 ? R(0) : above);
  }
};

}  // namespace unary

/// Calls body(function) with the function that these attributes say.
template <class F, class Body>
void with_unary(const double* attrs, const Body& body) {
  if constexpr (requires { F::with(attrs, body); }) F::with(attrs, body);
  else body(F{});
}

}  // namespace spillway::ops
