// Elementary functions of the cpu device's kernels against the library's in double, over all exponents: the bounds of ops/elementary.hpp,
// and the results at zeros, infinities, NaN and denormals.
#include <cmath>
#include <limits>

#include "cpu/kernels.hpp"
#include "test/native/checking.hpp"
#include "test/native/kernels/calls.hpp"
#include "test/native/kernels/families.hpp"

using namespace spillway;

using spillway::test::Array;

namespace {

#ifdef SPILLWAY_WITH_CPU

/// Floats of every exponent and sign, with mantissas that differ, and the special ones.
std::vector<double> arguments() {
  std::vector<double> all;
  const auto add = [&](uint64_t bits) { all.push_back(double(std::bit_cast<float>(uint32_t(bits)))); };
  for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 65521) add(bits);
  for (uint64_t bits = 0x3C000000; bits < 0x43000000; bits += 7919) {  // from 2^-7 to 2^7
    add(bits);
    add(bits | 0x80000000);
  }
  for (const uint64_t bits : {0x0, 0x1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000}) {
    add(bits);
    add(bits | 0x80000000);
  }
  return all;
}

std::vector<double> computed(OpKind kind, const std::vector<double>& attrs, const std::vector<double>& x, DType dtype) {
  Array in(test::Dims{1, 1, 1, int64_t(x.size())});
  in.data = x;
  const test::Call call{kind, attrs, {test::tensor(in)}, {test::tensor(Array(in.dims))}};
  return test::run_whole(call, {cpu::kernel, dtype})[0].data;
}

/// Units in the last place of a float near `value`.
double ulp_of(double value) { return std::ldexp(1.0, std::max(std::ilogb(value), -126) - 23); }

bool is_alike(double got, double expected, double ulps, double absolute) {
  const double nearest = double(float(expected));
  if (std::isnan(nearest)) return std::isnan(got);
  if (std::isinf(nearest) || got == nearest) return got == nearest;
  return std::abs(got - expected) <= std::max(ulps * ulp_of(expected == 0 ? nearest : expected), absolute);
}

struct Bound {
  OpKind kind;
  std::vector<double> attrs;
  double (*exact)(double);
  double ulps, absolute;
};

/// Shares below the least normal float are 0.
constexpr double FLUSHED = 1.18e-38;

const Bound BOUNDS[] = {
    {OpKind::exp, {}, [](double x) { return std::exp(x); }, 2, 0},
    {OpKind::log, {}, [](double x) { return std::log(x); }, 2, 0},
    {OpKind::tanh, {}, [](double x) { return std::tanh(x); }, 2, 0},
    {OpKind::sqrt, {}, [](double x) { return std::sqrt(x); }, 0.5, 0},
    {OpKind::sigmoid, {}, [](double x) { return 1 / (1 + std::exp(-x)); }, 3, FLUSHED},
    {OpKind::elu, {1}, [](double x) { return x > 0 ? x : std::expm1(x); }, 3, 0},
    {OpKind::softplus, {}, [](double x) { return x > 40 ? x : std::log1p(std::exp(x)); }, 4, FLUSHED},
    // The argument multiplies the error of a small share.
    {OpKind::silu, {}, [](double x) { return std::isinf(x) && x < 0 ? NAN
                                             : x == 0               ? x
                                                                    : x / (1 + std::exp(-x)); }, 4, 100 * FLUSHED},
    {OpKind::gelu, {}, [](double x) { return std::isinf(x) && x < 0 ? NAN : x * (0.5 * std::erfc(-x * M_SQRT1_2)); }, 2, 3e-6},
};

void bounds_hold() {
  const std::vector<double> x = arguments();
  for (const Bound& b : BOUNDS) {
    const std::vector<double> y = computed(b.kind, b.attrs, x, DType::f32);
    int wrong = 0;
    for (size_t i = 0; i < x.size(); i++) {
      if (is_alike(y[i], b.exact(x[i]), b.ulps, b.absolute)) continue;
      if (wrong++ == 0)
        testing::check(false, op_info(uint32_t(b.kind))->kind, __FILE__, __LINE__, std::to_string(x[i]) + " gives " + std::to_string(y[i]));
    }
    CHECK(wrong == 0);
  }
}

/// A result has the same bits at every place of a vector and behind its last full one.
void place_does_not_matter() {
  for (const Bound& b : BOUNDS)
    for (const double x : {-3.3, -0.4, 0.3, 2.7}) {
      const std::vector<double> y = computed(b.kind, b.attrs, std::vector<double>(77, x), DType::f32);
      for (const double one : y) CHECK(one == y[0] || (std::isnan(one) && std::isnan(y[0])));
    }
}

#endif

}  // namespace

int main() {
#ifdef SPILLWAY_WITH_CPU
  testing::test("the bounds of elementary functions hold", bounds_hold);
  testing::test("the place of an element does not matter", place_does_not_matter);
#else
  testing::test("without the cpu device nothing is checked", [] {});
#endif
  return testing::finish();
}
