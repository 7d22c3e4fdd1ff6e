// One call on a device against the reference: the distance, and the same bits the second time.
#pragma once
#include "test/native/kernels/families.hpp"
#include "test/native/kernels/report.hpp"

namespace spillway::test {

inline double worst(const std::vector<Array>& a, const std::vector<Array>& b) {
  double most = a.size() == b.size() && !a.empty() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < a.size(); i++) most = std::max(most, distance(a[i], b[i]));
  return most;
}

/// Whether the results that are words, not numbers, are the very same.
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
  std::string what = name_of(call) + (setting.dtype == DType::bf16 ? " in bf16" : "") + (setting.gaps ? " with gaps" : "") + (setting.in_place ? " in place" : "") + (call.way ? " way " + std::to_string(call.way) : "");
  try {
    const std::vector<Array> got = run_whole(call, setting);
    const std::vector<Array> expected = reference(call, setting.dtype);
    const double error = worst(got, expected);
    report.check(error <= tolerance, what + ": relative error " + std::to_string(error));
    report.check(same_words(call, got, expected), what + ": other words than the reference's");
    if (repeats) report.check(same_bits(got, run_whole(call, setting)), what + ": other bits the second time");
  } catch (const Failure& e) {
    report.check(false, what + ": " + e.what());
  }
}

}  // namespace spillway::test
