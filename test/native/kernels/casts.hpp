// The casts between 16-bit floats and a device's float type, number by number. In: a device, its floats. Out: checks in a report.
#pragma once
#include <cmath>
#include <limits>

#include "test/native/kernels/comparing.hpp"

namespace spillway::test {

/// The casts of a 16-bit type, and its limits: half a step behind 1, a number that is rounded to infinity, the least number above 0.
struct Casts {
  OpKind to, back, to_grad, back_grad;
  double up, too_large, least;
};
constexpr Casts BF16_CASTS{OpKind::to_bf16, OpKind::from_bf16, OpKind::to_bf16_grad, OpKind::from_bf16_grad, 0x1p-8, 3.5e38, 0x1p-133};
constexpr Casts F16_CASTS{OpKind::to_f16, OpKind::from_f16, OpKind::to_f16_grad, OpKind::from_f16_grad, 0x1p-11, 65520, 0x1p-24};

/// To nearest, ties to even, in one rounding from either float type; back without loss.
inline void check_casts(Report& report, KernelTable table, DType real, const Casts& of) {
  const double up = of.up, tiny = 0x1p-40, inf = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<double, double>> rounded{{1, 1},
                                                       {1 + up, 1},
                                                       {1 + 3 * up, 1 + 4 * up},
                                                       {-1 - up, -1},
                                                       {-1 - 3 * up, -1 - 4 * up},
                                                       {1 + 0.99 * up, 1},
                                                       {1 + 1.01 * up, 1 + 2 * up},
                                                       {1 + up + tiny, real == DType::f64 ? 1 + 2 * up : 1},
                                                       {1 + 3 * up - tiny, real == DType::f64 ? 1 + 2 * up : 1 + 4 * up},
                                                       {of.too_large, inf},
                                                       {-of.too_large, -inf},
                                                       {inf, inf},
                                                       {-inf, -inf},
                                                       {0, 0},
                                                       {of.least, of.least},
                                                       {1.5 * of.least, 2 * of.least},
                                                       {2.5 * of.least, 2 * of.least},
                                                       {of.least / 4, 0},
                                                       {of.least / 2, 0},
                                                       {std::nan(""), std::nan("")}};
  Array x({1, int64_t(rounded.size()), 1, 1}), expected = x;
  for (size_t i = 0; i < rounded.size(); i++) x.data[i] = rounded[i].first, expected.data[i] = rounded[i].second;
  const auto cast = [&](OpKind kind, const Array& from) {
    return run_whole({kind, {}, {tensor(from)}, {tensor(Array(from.dims))}}, {table, real})[0];
  };
  for (const auto& [to, back] : {std::pair(of.to, of.back), std::pair(of.to_grad, of.back_grad)}) try {
      const Array rounded = cast(to, x);
      report.check(distance(rounded, expected) == 0, "casts round to nearest even");
      report.check(distance(cast(back, rounded), expected) == 0, "casts back lose nothing");
    } catch (const Failure& e) {
      report.check(false, std::string("casts: ") + e.what());
    }
}

}  // namespace spillway::test
