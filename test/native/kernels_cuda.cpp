// The cuda device's kernels against the reference: its own ones compiled for the host, or, with SPILLWAY_TEST_DEVICE=cuda,
// all of them on the GPU. Dense and strided, in place, in tiles, twice for the same bits; the host's in f32, bf16 and f16, a GPU's in one.
// SPILLWAY_TEST_PRECISION=tf32 takes products in TF32, bf16 and fp16 those calls whose activations may be so; SPILLWAY_TEST_SHARE=20 runs
// one case in twenty; SPILLWAY_TEST_PART=2/8 every eighth family from the second on; SPILLWAY_TEST_SECONDS ends well after so long, having
// run a part of each family; a report of each kind goes to the file SPILLWAY_TEST_REPORT.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "cuda/kernels/boxes.hpp"
#include "runtime/clock.hpp"
#include "runtime/devices.hpp"
#include "runtime/single_call.hpp"
#include "test/native/imitation/kernels.hpp"
#include "test/native/kernels/casts.hpp"
#include "test/native/kernels/comparing.hpp"
#include "test/native/kernels/families.hpp"
#include "test/native/kernels/tiling.hpp"

using namespace spillway;
using namespace spillway::test;

namespace {

const char* setting_of(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

const Device* the_device = nullptr;
SingleOptions the_options;

/// A device behind the plugin interface as a table of kernels on host memory.
class ThroughPlugin final : public PreparedKernel {
 public:
  int64_t workspace_bytes() const override { return 0; }  // its own memory
  void run(const KernelCall& c) override {
    if (const Status s = single_run(*the_device, c, the_options); !s.ok()) throw Failure(s.message);
  }
};

constexpr KernelEntry THROUGH_PLUGIN{[](const KernelCall& c, uint32_t most) { return single_ways(*the_device, c, most, the_options); },
                                     [](const KernelCall& c) -> Result<std::unique_ptr<PreparedKernel>> {
                                       const auto ways = single_ways(*the_device, c, 1, the_options);
                                       if (!ways.ok()) return ways.status();
                                       return std::unique_ptr<PreparedKernel>(std::make_unique<ThroughPlugin>());
                                     }};

const KernelEntry* plugin_kernel(uint32_t wire) { return the_device->has_kernel(wire) ? &THROUGH_PLUGIN : nullptr; }

std::vector<Way> offered;

/// Asks for a call's ways instead of preparing it.
constexpr KernelEntry ASKING{nullptr, [](const KernelCall& c) -> Result<std::unique_ptr<PreparedKernel>> {
                               const auto ways = single_ways(*the_device, c, MOST_WAYS, the_options);
                               if (ways.ok()) offered = ways.value();
                               return refuse("only asked");
                             }};

/// The ways of a call on dense operands.
std::vector<Way> ways_of_call(const Call& call, DType dtype) {
  offered.clear();
  try {
    run_whole(call, {[](uint32_t) { return &ASKING; }, dtype});
  } catch (const Failure&) {
  }
  return offered;
}

/// The stored type of activations, and the values that are compared with the reference in each.
struct Held {
  DType dtype;
  double tolerance;
  bool rounds_factors = false;
};

std::vector<Held> held(bool on_device, const std::string& precision) {
  constexpr Held NARROW{DType::bf16, BF16_TOLERANCE}, F16{DType::f16, F16_TOLERANCE};
  if (!on_device) return {{DType::f32, 1e-5}, NARROW, F16};
  if (precision == "bf16") return {NARROW};
  if (precision == "fp16") return {F16};
  return {precision == "tf32" ? Held{DType::f32, TF32_TOLERANCE, true} : Held{DType::f32, 1e-4}};
}

/// Whole and strided, in place, in tiles; the i-th case of its family.
void check_call(Report& report, const Call& call, KernelTable table, const Held& h, int i, Random& tiles_random) {
  const auto setting = [&](bool gaps, bool in_place) { return Setting{table, h.dtype, gaps, in_place, h.rounds_factors}; };
  compare(report, call, setting(false, false), h.tolerance);
  if (!call.dense) compare(report, call, setting(true, false), h.tolerance);
  if (call.in_place >= 0) compare(report, call, setting(i % 2 == 1, true), h.tolerance);
  if (i % 2 == 0 && tiles(call)) compare_tiled(report, call, setting(true, false), h.tolerance, tiles_random);
}

/// The device's other ways, those of fused graphs and those that need not repeat among them.
void check_ways(Report& report, Call call, const Held& h) {
  for (const Way& way : ways_of_call(call, h.dtype)) {
    if (way.number == 0) continue;
    call.way = way.number;
    compare(report, call, {plugin_kernel, h.dtype, false, false, h.rounds_factors}, h.tolerance, way.repeats);
  }
}

void check_divider(Report& report) {
  for (const uint32_t by : {1u, 2u, 3u, 5u, 7u, 8u, 49u, 112u, 641u, 65535u, 65537u, (1u << 30) - 1, 1u << 30, (1u << 31) - 1})
    for (const uint32_t n : {0u, 1u, by - 1, by, by + 1, 2 * by - 1, 1000003u, (1u << 30) + 1, (1u << 31) / by * by - 1, (1u << 31) - 1})
      if (n < 1u << 31) report.check(cuda::Divider(by).of(n) == n / by, "division of " + std::to_string(n) + " by " + std::to_string(by));
}

struct Tried {
  uint64_t calls = 0, failed = 0;
};

/// The families that this program runs: `part` of `parts`, from 1 on.
std::vector<Generator> families_of(const char* text) {
  unsigned part = 1, parts = 1;
  if (text && (std::sscanf(text, "%u/%u", &part, &parts) != 2 || part < 1 || part > parts)) return {};
  std::vector<Generator> chosen;
  for (size_t i = part - 1; i < generators().size(); i += parts) chosen.push_back(generators()[i]);
  return chosen;
}

/// One line of JSON for each kind.
void write_report(const char* path, const std::map<uint32_t, Tried>& tried) {
  std::ofstream out(path);
  for (const auto& [wire, t] : tried)
    out << "{\"kind\": \"" << op_info(wire)->kind << "\", \"calls\": " << t.calls << ", \"failed\": " << t.failed << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  ask_for(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a device may end the program: what failed before is told
  const char* device = setting_of("SPILLWAY_TEST_DEVICE");
  const std::string precision = setting_of("SPILLWAY_TEST_PRECISION") ? setting_of("SPILLWAY_TEST_PRECISION") : "fp32";
  KernelTable table = imitation::own_kernel;
  if (device) {
    const Result<const Device*> loaded = load_device(device);
    if (!loaded.ok()) return std::printf("%s\n0 passed, 1 failed\n", loaded.status().message.c_str()), 1;
    the_device = loaded.value();
    the_options.precision = precision == "tf32" ? Precision::tf32 : Precision::fp32;
    table = plugin_kernel;
  }
  const int share = setting_of("SPILLWAY_TEST_SHARE") ? std::max(1, std::atoi(setting_of("SPILLWAY_TEST_SHARE"))) : 1;
  const double seconds = setting_of("SPILLWAY_TEST_SECONDS") ? std::atof(setting_of("SPILLWAY_TEST_SECONDS")) : 1e9;
  Report report;
  if (is_asked("divider")) check_divider(report);
  if (is_asked("casts")) {
    check_casts(report, table, DType::f32, BF16_CASTS);
    check_casts(report, table, DType::f32, F16_CASTS);
  }
  std::map<uint32_t, Tried> tried;
  const Clock::time_point start = Clock::now();
  double allowed = 0;
  const std::vector<Generator> families = families_of(setting_of("SPILLWAY_TEST_PART"));
  if (families.empty()) return std::printf("there is no such part of the families\n0 passed, 1 failed\n"), 1;
  const char* const report_file = setting_of("SPILLWAY_TEST_REPORT");
  for (const Generator& g : families) {
    Random r(2024), tiles_random(99);
    allowed += seconds / double(families.size());
    const int cases = device ? (g.most + share - 1) / share : g.cases();  // a GPU gets them all, whatever build this is
    for (int i = 0; i < cases && (i == 0 || seconds_since(start) < allowed); i++)
      for (const Call& call : g.draw(r).calls) {
        if (!table(uint32_t(call.kind)) || call.way != 0) continue;  // the others are the cpu device's
        const int before = report.failed();
        for (const Held& h : held(device != nullptr, precision))
          if (!ops::is_half(h.dtype) || may_be_narrow(call, h.dtype)) {
            check_call(report, call, table, h, i, tiles_random);
            if (device) check_ways(report, call, h);
          }
        Tried& t = tried[uint32_t(call.kind)];
        t.calls++;
        t.failed += report.failed() > before ? 1 : 0;
      }
    if (report_file) write_report(report_file, tried);
  }
  if (seconds < 1e9) std::printf("%.1f seconds\n", seconds_since(start));
  return report.finish(!all_asked());
}
