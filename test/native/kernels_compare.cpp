// Every operator on the cpu device against the reference device: dense and strided, out of place and in place, twice
// for the same bits, in f32, bf16 and f16; and the null device leaves everything alone. Built without the cpu device it holds the reference
// in f32 against itself in f64.
#include "test/native/kernels/casts.hpp"
#include "test/native/kernels/comparing.hpp"
#include "test/native/kernels/families.hpp"

using namespace spillway;
using namespace spillway::test;

namespace {

#ifdef SPILLWAY_WITH_CPU
constexpr KernelTable device = cpu::kernel;
#else
constexpr KernelTable device = ref::kernel;
#endif

/// Every second case in bf16, the others in f16, with and without gaps, in place and not. A convolution rounds once; an implementation may
/// also round along the way.
void compare_narrow(Report& report, const Call& call, int i) {
  const DType half = i % 2 == 0 ? DType::bf16 : DType::f16;
#ifdef SPILLWAY_WITH_CPU
  if (half == DType::bf16 && !cpu::has_bf16()) return;
#endif
  if (may_be_narrow(call, half))
    compare(report, call, {device, half, i % 4 < 2 && !call.dense, i % 3 == 0 && call.in_place >= 0},
            half == DType::bf16 ? 1e-2 : F16_TOLERANCE);
}

/// The null device allows the calls that the others allow, and computes nothing.
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

int main(int argc, char** argv) {
  ask_for(argc, argv);
  Report report;
  for (const Casts& casts : {BF16_CASTS, F16_CASTS})
    if (is_asked("casts")) check_casts(report, ref::kernel, DType::f64, casts);
#ifdef SPILLWAY_WITH_CPU
  if (is_asked("casts") && cpu::has_bf16()) check_casts(report, cpu::kernel, DType::f32, BF16_CASTS);
  if (is_asked("casts")) check_casts(report, cpu::kernel, DType::f32, F16_CASTS);
#endif
  for (const Generator& g : generators()) {
    Random r(2024);
    for (int i = 0; i < g.cases(); i++)
      for (const Call& call : g.draw(r).calls) {
        compare(report, call, {device, DType::f32}, 1e-5);
        if (!call.dense) compare(report, call, {device, DType::f32, true}, 1e-5);
        compare_narrow(report, call, i);
        check_null(report, call);
        if (call.in_place >= 0) compare(report, call, {device, DType::f32, i % 2 == 1, true}, 1e-5);
      }
  }
  return report.finish(!all_asked());
}
