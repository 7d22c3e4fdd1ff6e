// Every operator on the cpu device against the reference device: dense and strided, out of place and in place, twice
// for the same bits; and the null device leaves everything alone. Built without the cpu device it holds the reference
// in f32 against itself in f64.
#include "test/native/kernels/cases.hpp"
#include "test/native/kernels/report.hpp"

using namespace spillway;
using namespace spillway::test;

namespace {

#ifdef SPILLWAY_WITH_CPU
constexpr KernelTable device = cpu::kernel;
#else
constexpr KernelTable device = ref::kernel;
#endif

double worst(const std::vector<Array>& a, const std::vector<Array>& b) {
  double most = a.size() == b.size() && !a.empty() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < a.size(); i++) most = std::max(most, distance(a[i], b[i]));
  return most;
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  for (size_t i = 0; i < a.size(); i++)
    if (std::memcmp(a[i].data.data(), b[i].data.data(), a[i].data.size() * sizeof(double)) != 0) return false;
  return true;
}

void compare(Report& report, const Call& call, const Setting& setting) {
  std::string what = name_of(call) + (setting.gaps ? " with gaps" : "") + (setting.in_place ? " in place" : "");
  try {
    const std::vector<Array> got = run_whole(call, setting);
    const double error = worst(got, reference(call));
    report.check(error <= 1e-5, what + ": relative error " + std::to_string(error));
    report.check(same_bits(got, run_whole(call, setting)), what + ": other bits the second time");
  } catch (const Failure& e) {
    report.check(false, what + ": " + e.what());
  }
}

/// The null device allows what the others allow and computes nothing.
void check_null(Report& report, const Call& call) {
  try {
    const std::vector<Array> untouched = run_whole(call, {null::kernel, DType::f32});
    bool same = true;
    for (size_t i = 0; i < untouched.size(); i++) {
      const size_t n = call.outs.size();
      same = same && distance(untouched[i], i < n ? call.outs[i].value : call.ins[call.mutated[i - n]].value) == 0;
    }
    report.check(same, name_of(call) + " on null: wrote something");
  } catch (const Failure& e) {
    report.check(false, name_of(call) + " on null: " + e.what());
  }
}

}  // namespace

int main() {
  Report report;
  for (const Generator& g : generators()) {
    Random r(2024);
    for (int i = 0; i < g.cases(); i++)
      for (const Call& call : g.make(r).calls) {
        compare(report, call, {device, DType::f32});
        if (!call.dense) compare(report, call, {device, DType::f32, true});
        check_null(report, call);
        if (call.in_place >= 0) compare(report, call, {device, DType::f32, i % 2 == 1, true});
      }
  }
  return report.finish();
}
