// One call on a device against the reference: the distance, and the same bits the second time.
#pragma once
#include "test/native/kernels/families.hpp"
#include "test/native/kernels/report.hpp"

namespace spillway::test {

/// The size of results whose terms do not cancel: the same sums of products of squares, and the root of these. Rounded factors cause an
/// error in proportion to these sizes, even if a result of few elements is small. Worked example: 3·4 - 2·6 = 0 is of the size 17.
inline std::vector<double> sizes_of(const Call& call) {
  Call squares = call;
  for (Operand& in : squares.ins)
    if (!in.labels)
      for (double& v : in.value.data) v *= v;
  std::vector<double> sizes;
  for (const Array& sum : reference(squares)) {
    double all = 0;
    for (const double v : sum.data) all += std::abs(v);
    sizes.push_back(std::sqrt(all));
  }
  return sizes;
}

/// Operators that are sums of products of their operands, tensor by tensor.
inline bool is_product(const Call& call) {
  switch (call.kind) {
    case OpKind::conv2d:
    case OpKind::conv2d_relu:
    case OpKind::conv2d_bwd_data:
    case OpKind::conv2d_bwd_weights:
    case OpKind::conv_transpose2d:
    case OpKind::conv_transpose2d_bwd_data:
    case OpKind::conv_transpose2d_bwd_weights:
    case OpKind::linear:
    case OpKind::linear_bwd_data:
    case OpKind::linear_bwd_weights:
      return true;
    default:
      return false;
  }
}

/// By result; none where results are held to their own size.
inline std::vector<double> sizes_held(const Call& call, const Setting& setting) {
  return setting.rounds_factors && is_product(call) ? sizes_of(call) : std::vector<double>();
}

/// The error of a result, over itself or its terms.
inline double error_of(const Array& got, const Array& expected, const std::vector<double>& sizes, size_t i) {
  const double error = distance(got, expected);
  return i < sizes.size() ? error * std::min(1.0, std::max(norm(expected), 1e-3) / std::max(sizes[i], 1e-3)) : error;
}

inline double worst(const std::vector<Array>& a, const std::vector<Array>& b, const std::vector<double>& sizes = {}) {
  double most = a.size() == b.size() && !a.empty() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < a.size(); i++) {
    const double error = error_of(a[i], b[i], sizes, i);
    // A maximum ignores NaN.
    most = std::isnan(error) ? HUGE_VAL : std::max(most, error);
  }
  return most;
}

/// Returns true if results that are words, not numbers, are equal.
inline bool same_words(const Call& call, const std::vector<Array>& a, const std::vector<Array>& b) {
  for (size_t i = 0; i < call.outs.size(); i++)
    if (call.outs[i].labels && distance(a[i], b[i]) != 0) return false;
  return true;
}

inline bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  for (size_t i = 0; i < a.size(); i++)
    if (std::memcmp(a[i].data.data(), b[i].data.data(), a[i].data.size() * sizeof(double)) != 0) return false;
  return true;
}

/// `repeats`: the same bits each time.
inline void compare(Report& report, const Call& call, const Setting& setting, double tolerance, bool repeats = true) {
  std::string what = name_of(call) + (ops::is_half(setting.dtype) ? std::string(" in ") + name_of(setting.dtype) : "") +
                     (setting.gaps ? " with gaps" : "") + (setting.in_place ? " in place" : "") +
                     (call.way ? " way " + std::to_string(call.way) : "");
  try {
    const std::vector<Array> got = run_whole(call, setting);
    const std::vector<Array> expected = reference(call, setting.dtype);
    const double error = worst(got, expected, sizes_held(call, setting));
    report.check(error <= tolerance, what + ": relative error " + std::to_string(error));
    report.check(same_words(call, got, expected), what + ": other words than the reference's");
    if (repeats) report.check(same_bits(got, run_whole(call, setting)), what + ": other bits the second time");
  } catch (const Failure& e) {
    report.check(false, what + ": " + e.what());
  }
}

}  // namespace spillway::test
