// Tiles against the whole: each operator runs on a random grid of boxes of its iteration space, on slices by the op table, its outputs
// added together; the sum must equal one untiled call.
#include "test/native/kernels/families.hpp"
#include "test/native/kernels/tiling.hpp"

using namespace spillway;
using namespace spillway::test;

namespace {

/// Gradients that cover parts of a box: zero outside.
void check_partial_sum(Report& report, const Setting& setting, double tolerance, Random& r) {
  const Dims d = image(r);
  Call call{OpKind::grad_sum, {}, {}, {tensor(Array(d))}};
  std::vector<Box> boxes;
  Array expected(d);
  for (int64_t i = r.between(2, 4); i > 0; i--) {
    const std::vector<Box> pieces = grid(r, d);
    const Box box = pieces[size_t(r.between(0, int64_t(pieces.size()) - 1))];
    const Array value = r.normal(d);
    each_place(box, [&](int64_t b, int64_t c, int64_t h, int64_t w) { expected.at(b, c, h, w) += value.at(b, c, h, w); });
    call.ins.push_back(tensor(value));
    boxes.push_back(box);
  }
  boxes.push_back(whole(d));
  try {
    const double error = distance(run_on(call, setting, boxes)[0], expected);
    report.check(error <= tolerance, name_of(call) + " of partial boxes: relative error " + std::to_string(error));
  } catch (const Failure& e) {
    report.check(false, name_of(call) + " of partial boxes: " + e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  ask_for(argc, argv);
  Report report;
  std::vector<std::pair<Setting, double>> settings{{{ref::kernel, DType::f64, false}, 1e-12}, {{ref::kernel, DType::f64, true}, 1e-12}};
#ifdef SPILLWAY_WITH_CPU
  settings.push_back({{cpu::kernel, DType::f32, true}, 1e-5});
  if (cpu::has_bf16()) settings.push_back({{cpu::kernel, DType::bf16, true}, BF16_TOLERANCE});
  settings.push_back({{cpu::kernel, DType::f16, true}, F16_TOLERANCE});
#endif
  for (const Generator& g : generators()) {
    Random r(99);
    for (int i = 0; i < g.cases(2); i++)
      for (const Call& call : g.draw(r).calls)
        for (const auto& [setting, tolerance] : settings)
          if (tiles(call) && (!ops::is_half(setting.dtype) || (i % 2 == 0 && may_be_narrow(call, setting.dtype))))
            compare_tiled(report, call, setting, tolerance, r);
  }
  Random r(5);
  for (int i = 0; i < 40 && is_asked("grad_sum"); i++)
    for (const auto& [setting, tolerance] : settings) check_partial_sum(report, setting, tolerance, r);
  return report.finish(!all_asked());
}
