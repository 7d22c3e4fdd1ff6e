// Calls that no stager makes: a hostile tape could contain them within its memory bounds. Valid calls are damaged (dims cut, boxes moved,
// attributes and element types replaced, operands dropped or swapped); each must be refused in words or stay inside its views.
#include "test/native/kernels/families.hpp"
#include "test/native/kernels/report.hpp"

using namespace spillway;
using namespace spillway::test;

namespace {

constexpr int64_t MOST_WORKSPACE_BYTES = int64_t(1) << 28;

/// Damages to a call. The cpu device compiles code for most of them, so it has fewer, and in full as many.
const int DAMAGES = 6;
const int CPU_DAMAGES = std::getenv("SPILLWAY_FULL") ? DAMAGES : 2;

/// A call in memory that can be damaged before it runs.
class Victim {
 public:
  Victim(const Call& call, DType dtype) : call_(call) {
    const std::vector<Box> boxes = whole_boxes(call);
    for (size_t i = 0; i < call.operands(); i++) {
      placed_.push_back(std::make_unique<Placed>(call.operand(i), boxes[i], stored_type(call, i, dtype), false));
      views_.push_back(placed_.back()->view);
    }
    ins_ = call.ins.size();
    outs_ = call.outs.size();
    attrs_ = call.attrs;
  }

  void damage(Random& r) {
    if (views_.empty()) return;
    View& v = views_[size_t(r.between(0, int64_t(views_.size()) - 1))];
    const int64_t d = r.between(0, 3);
    switch (r.between(0, 9)) {
      case 0:
        v.dims[d] = r.between(0, v.dims[d]);
        break;
      case 1:
        v.origin[d] = r.pick<int64_t>({1, 2, 5, 1000, 0xffffffff});
        break;
      case 2:
        v.extent[d] = r.pick<int64_t>({0, 1, v.extent[d] + 1, 1000, 0xffffffff});
        break;
      case 3:
        v.origin[d]++, v.extent[d]++;
        break;
      case 4:
        v.rank = uint32_t(r.between(0, 4));
        break;
      case 5:
        v.strides[d] = r.between(0, v.strides[d]);
        break;
      case 6:
        damage_attribute(r);
        break;
      case 7:
        v.dtype = v.dtype == DType::f64                            ? r.pick({DType::f32, DType::i32, DType::bf16})
                  : v.dtype == DType::bf16 || v.dtype == DType::u8 ? v.dtype
                                                                   : r.pick({DType::i32, DType::bf16});
        break;
      case 8:
        (r.chance(0.5) ? ins_ : outs_) -= 1;
        break;
      default:
        std::swap(v, views_[size_t(r.between(0, int64_t(views_.size()) - 1))]);
    }
  }

  /// Refused or run; throws when it wrote where it must not.
  bool refused_on(KernelTable device) {
    if (ins_ > call_.ins.size() || outs_ > call_.outs.size()) return true;  // dropped below zero
    const StepContext step{1, 1, 1.0};
    KernelCall c{uint32_t(call_.kind),
                 views_.data(),
                 uint32_t(ins_),
                 views_.data() + call_.ins.size(),
                 uint32_t(outs_),
                 attrs_.data(),
                 uint32_t(attrs_.size()),
                 nullptr,
                 call_.way,
                 &step};
    const KernelEntry* entry = device(c.kind);
    const Result<std::vector<Way>> ways = entry->ways(c, MOST_WAYS);
    const Result<std::unique_ptr<PreparedKernel>> made = entry->prepare(c);
    if (c.way == 0 && made.ok() != ways.ok()) throw Failure("prepare and ways disagree");
    if (!made.ok()) return true;
    PreparedKernel& kernel = *made.value();
    for (const Way& way : ways.value())
      if (way.number == c.way && way.workspace_bytes != uint64_t(kernel.workspace_bytes()))
        throw Failure("prepare and ways disagree on the scratch");
    if (kernel.workspace_bytes() > MOST_WORKSPACE_BYTES) return true;  // a program refuses calls whose workspace is more than the tape has
    const Guarded workspace{size_t(kernel.workspace_bytes())};
    c.workspace = workspace.data();
    try {
      kernel.compile();
    } catch (const std::exception&) {
      return true;  // a library refuses late: the runtime makes an error of it (native/runtime/host_device.cpp)
    }
    kernel.run(c);
    for (const auto& p : placed_)
      if (!p->intact()) throw Failure("wrote outside its views");
    if (!workspace.intact()) throw Failure("wrote outside its workspace");
    return false;
  }

  std::string description() const {
    std::string s = name_of(call_) + " damaged to";
    for (const View& v : views_)
      for (int d = 0; d < 4; d++)
        s += " " + std::to_string(v.origin[d]) + "+" + std::to_string(v.dims[d]) + "/" + std::to_string(v.extent[d]);
    for (const double a : attrs_) s += " " + std::to_string(a);
    return s;
  }

 private:
  void damage_attribute(Random& r) {
    if (attrs_.empty()) return;
    attrs_[size_t(r.between(0, int64_t(attrs_.size()) - 1))] =
        r.pick({-1.0, 0.0, 1.0, 2.0, 3.0, 0.5, 100.0, 1e9, 1e15, 1e300, -1e300, double(NAN), double(INFINITY)});
  }

  const Call& call_;
  std::vector<std::unique_ptr<Placed>> placed_;
  std::vector<View> views_;
  std::vector<double> attrs_;
  size_t ins_ = 0, outs_ = 0;
};

struct Tally {
  int refused = 0, ran = 0;
};

void attack(Report& report, const Call& call, KernelTable device, DType dtype, int damages, Random& r, Tally& tally) {
  for (int i = 0; i < damages; i++) {
    Victim victim(call, dtype);
    for (int64_t n = r.between(1, 2); n > 0; n--) victim.damage(r);
    try {
      (victim.refused_on(device) ? tally.refused : tally.ran)++;
      report.check(true, "");
    } catch (const Failure& e) {
      report.check(false, victim.description() + ": " + e.what());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  ask_for(argc, argv);
  Report report;
  Tally tally;
  for (const Generator& g : generators()) {
    Random r(31);
    for (int i = 0; i < g.cases(3); i++) {
      for (const Call& call : g.draw(r).calls) {
        attack(report, call, ref::kernel, DType::f64, DAMAGES, r, tally);
        attack(report, call, null::kernel, DType::f32, DAMAGES, r, tally);
#ifdef SPILLWAY_WITH_CPU
        attack(report, call, cpu::kernel, DType::f32, CPU_DAMAGES, r, tally);
        if (cpu::has_bf16()) attack(report, call, cpu::kernel, DType::bf16, CPU_DAMAGES, r, tally);
#endif
      }
#ifdef SPILLWAY_WITH_CPU
      cpu::forget();  // else code is kept for every size that was ever tried
#endif
    }
  }
  if (all_asked()) report.check(tally.refused > 500 && tally.ran > 100, "the damage is neither always nor never noticed");
  return report.finish(!all_asked());
}
