// Activations without parameters as functions of an element, one definition for all devices: R is the computing type of a device. In:
// x, or for a gradient the operands of the op table, and dy. Invariant: the bits of a result depend only on the element. A line of
// staging/ops/unary.ts and a struct of its kind's name are an operator.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "gen/ops.h"
#include "ops/both.hpp"

namespace spillway::ops {

/// e^x. Floats on a processor use the polynomial of Cephes, within two units in the last place, in a form that compilers vectorise.
/// Beyond the range of floats, the result is 0 or infinity.
template <class R>
SPILLWAY_BOTH inline R exponential(R x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    constexpr float whole = 12582912.0f;  // adding it rounds to whole numbers, which then are the lowest bits
    const float least = x < -87.0f ? -87.0f : x, in_range = least > 88.0f ? 88.0f : least;
    const float shifted = in_range * 1.44269504f + whole, n = shifted - whole;
    const float rest = in_range - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) p = p * rest + c;
    uint32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);  // no std::bit_cast: nvcc compiles C++17 here
    bits = (bits << 23) + 0x3F800000u;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return (p * rest * rest + rest + 1.0f) * power;
  }
#endif
  return std::exp(x);
}

/// The share of a normal distribution below x. Floats on a processor by Abramowitz and Stegun 7.1.26, within 1e-7.
template <class R>
SPILLWAY_BOTH inline R normal_share(R x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    const float z = (x < 0 ? -x : x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    for (const float c : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f}) p = p * t + c;
    const float beyond = 0.5f * p * t * exponential(-z * z);
    return x < 0 ? beyond : 1.0f - beyond;
  }
#endif
  return R(0.5) * std::erfc(x * R(-0.7071067811865476));
}

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
  SPILLWAY_BOTH R value(R x) const {
    return x <= 0 ? R(0) : x;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return y <= 0 ? R(0) : dy;
  }
};
/// A product that only one side needs would not be vectorised: it may raise an exception.
struct LeakyRectifier : Simple {
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
      body(LeakyRectifier{{}, slope});
  }
};

struct sigmoid : Transcendental {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return R(1) / (R(1) + std::exp(-x));
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy * y * (R(1) - y);
  }
};

struct tanh : Transcendental {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return std::tanh(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy * (R(1) - y * y);
  }
};

struct relu6 : Simple {
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

struct hard_swish : Simple {
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

struct hard_sigmoid : Simple {
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

struct silu : Simple {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x / (1 + exponential(-x));
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    const R s = 1 / (1 + exponential(-x));
    return dy * (s * (1 + x * (1 - s)));
  }
};

struct gelu : Simple {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x * normal_share(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    return dy * (normal_share(x) + x * R(0.3989422804014327) * exponential(x * x * R(-0.5)));
  }
};

/// The normal share by its approximation with tanh: x·σ(2u) = x·(1 + tanh(u)) / 2.
struct gelu_tanh : Simple {
  template <class R>
  SPILLWAY_BOTH static R share(R x) {
    return 1 / (1 + exponential(x * (R(-1.5957691216057308) - R(0.07135481627260025) * x * x)));
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

struct softplus : Simple {
  static constexpr bool simd_value = false;
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x > 20 ? x : std::log1p(std::exp(x));
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    return dy / (1 + exponential(-x));
  }
};

/// tanh(log(1 + e)) = n / (n + 2), n = e·(e + 2).
struct mish : Simple {
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

struct Elu : Simple {
  double alpha;
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    const R below = R(alpha) * (exponential(x) - 1);
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
    body(Elu{{}, EluAttrs::read(attrs).alpha});
  }
};

/// A NaN passes through.
struct Clamp : Simple {
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
    body(Clamp{{}, a.low, a.high});
  }
};

struct Affine : Simple {
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
    body(Affine{{}, a.factor, a.shift});
  }
};

struct abs : Simple {
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

struct exp : Transcendental {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return std::exp(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy * y;
  }
};

struct log : Transcendental {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return std::log(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    return dy / x;
  }
};

struct sqrt : Transcendental {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return std::sqrt(x);
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R y, R dy) const {
    return dy / (2 * y);
  }
};

struct square : Simple {
  template <class R>
  SPILLWAY_BOTH R value(R x) const {
    return x * x;
  }
  template <class R>
  SPILLWAY_BOTH R gradient(R x, R dy) const {
    return 2 * x * dy;
  }
};

struct reciprocal : Simple {
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
