// Elementary functions, one definition for all devices. In: R, the computing type of a device. Out: floats on a processor by polynomials
// (Cephes, Moshier) without branches, tables or calls, so that compilers vectorise loops over them; other types by the library.
// Invariant: the bits of a result depend only on the argument, not on its place. test/native/elementary_test.cpp checks the bounds below,
// in units in the last place (ulp), for floats of all exponents.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/both.hpp"

namespace spillway::ops {

namespace detail {

template <class To, class From>
SPILLWAY_BOTH To bits_as(const From& from) {  // no std::bit_cast: nvcc compiles C++17 here
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// Horner's rule; the coefficient of the highest power is first.
template <class... C>
SPILLWAY_BOTH float polynomial(float x, float highest, C... lower) {
  float p = highest;
  ((p = p * x + lower), ...);
  return p;
}

/// 2^n for n in [-126, 127].
SPILLWAY_BOTH inline float power_of_two(int32_t n) { return bits_as<float>(uint32_t(n + 127) << 23); }

/// x = n·log(2) + rest, |rest| <= log(2)/2, for |x| up to 1000; e^rest = 1 + less_one.
struct Exponent {
  SPILLWAY_BOTH explicit Exponent(float x) {
    constexpr float whole = 12582912.0f;  // adding it rounds to whole numbers, which then are the lowest bits
    const float shifted = x * 1.44269504f + whole, count = shifted - whole;
    const float rest = x - count * 0.693359375f + count * 2.12194440e-4f;
    n = bits_as<int32_t>(shifted) - bits_as<int32_t>(whole);
    const float p =
        polynomial(rest, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
    less_one = p * rest * rest + rest;
  }
  int32_t n;
  float less_one;
};

}  // namespace detail

/// e^x, within 2 ulp.
template <class R>
SPILLWAY_BOTH inline R exponential(R x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    const float least = x < -104.0f ? -104.0f : x;
    const detail::Exponent e(least > 89.0f ? 89.0f : least);
    // Two factors, each of them normal: a result below the least normal float is rounded once.
    const int32_t half = e.n >> 1;
    return (e.less_one + 1.0f) * detail::power_of_two(half) * detail::power_of_two(e.n - half);
  }
#endif
  return std::exp(x);
}

/// e^x for x <= 0, within 2 ulp, in fewer instructions: a result below the least normal float is 0.
template <class R>
SPILLWAY_BOTH inline R exponential_of_negative(R x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    constexpr float least_normal = -87.33654f;
    const detail::Exponent e(x < least_normal ? least_normal : x);
    const float power = detail::power_of_two(e.n);
    return (e.less_one + 1.0f) * (x < least_normal ? 0.0f : power);
  }
#endif
  return std::exp(x);
}

/// e^x - 1 for x <= 0, within 3 ulp: near 0, nothing cancels. Above 0, any number.
template <class R>
SPILLWAY_BOTH inline R exponential_of_negative_less_one(R x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    const detail::Exponent e(x < -87.0f ? -87.0f : x);
    const float power = detail::power_of_two(e.n);
    return e.less_one * power + (power - 1.0f);
  }
#endif
  return std::expm1(x);
}

/// The natural logarithm, within 2 ulp; NaN below 0.
template <class R>
SPILLWAY_BOTH inline R logarithm(R x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    constexpr float least_normal = 1.17549435e-38f, infinity = __builtin_inff();
    const float normal = x * (x < least_normal ? 8388608.0f : 1.0f), lowered = x < least_normal ? 23.0f : 0.0f;
    // x = 2^n·m, m from sqrt(1/2) to sqrt(2).
    const int32_t bits = int32_t(detail::bits_as<uint32_t>(normal) - 0x3F3504F3u);  // wraps below 0, where the result is NaN
    const float n = float(bits >> 23) - lowered, m = detail::bits_as<float>((bits & 0x7FFFFF) + 0x3F3504F3);
    const float f = m - 1.0f, square = f * f;
    const float p = detail::polynomial(f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                                       -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
    const float low = f * square * p - n * 2.12194440e-4f - 0.5f * square;
    // Added: 0 inside the range.
    const float beyond = x < infinity ? 0.0f : x, below = x < 0 ? __builtin_nanf("") : beyond, special = x == 0 ? -infinity : below;
    return f + low + n * 0.693359375f + special;
  }
#endif
  return std::log(x);
}

/// log(1 + x), within 3 ulp: near 0, nothing is lost. The logarithm of the rounded sum, and the rest of the sum.
template <class R>
SPILLWAY_BOTH inline R logarithm_of_one_more(R x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    const float bounded = x > 1e38f ? 1e38f : x, sum = 1.0f + bounded, rest = bounded - (sum - 1.0f);
    return logarithm(1.0f + x) + rest / (sum == 0 ? 1.0f : sum);
  }
#endif
  return std::log1p(x);
}

/// x^n for x >= 0, within 2 + 2·|n·log(x)| ulp.
template <class R>
SPILLWAY_BOTH inline R power(R x, R n) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    const float result = exponential(n * logarithm(x));
    return n == 0 ? 1.0f : result;
  }
#endif
  return std::pow(x, n);
}

/// The hyperbolic tangent, within 2 ulp: a polynomial below 0.625, where 1 - 2/(e^2x + 1) would cancel.
template <class R>
SPILLWAY_BOTH inline R hyperbolic_tangent(R x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    const float size = x < 0 ? -x : x, square = x * x;
    const float p =
        detail::polynomial(square, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f);
    const float near = p * square * x + x, far = 1.0f - 2.0f / (exponential(size + size) + 1.0f), signed_far = x < 0 ? -far : far;
    return size < 0.625f ? near : signed_far;
  }
#endif
  return std::tanh(x);
}

/// 1 / (1 + e^-x), within 3 ulp; a result below the least normal float is 0.
template <class R>
SPILLWAY_BOTH inline R logistic(R x) {
  const R e = exponential_of_negative(x < 0 ? x : -x);
  return (x < 0 ? e : R(1)) / (R(1) + e);
}

/// The share of a normal distribution below x; `e` is e^(-x²/2). Floats on a processor by Abramowitz and Stegun 7.1.26, within 2e-7.
template <class R>
SPILLWAY_BOTH inline R normal_share(R x, [[maybe_unused]] R e) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<R, float>) {
    const float z = (x < 0 ? -x : x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
    const float p = detail::polynomial(t, 1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f);
    const float beyond = 0.5f * p * t * e, below = 1.0f - beyond;
    return x < 0 ? beyond : below;
  }
#endif
  return R(0.5) * std::erfc(x * R(-0.7071067811865476));
}

}  // namespace spillway::ops
