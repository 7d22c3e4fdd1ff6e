// Kernels in bf16 that are wrong on purpose: the comparison that the cuda device's own kernels are held to says so, case by case,
// and has nothing to say of the right ones. Two ways to be wrong: results cut short where they should be rounded (three digits
// behind the first, of bf16's seven), and sums without the term of the last channel.
#include "test/native/imitation/kernels.hpp"
#include "test/native/kernels/families.hpp"
#include "test/native/kernels/comparing.hpp"

using namespace spillway;
using namespace spillway::test;

namespace {

constexpr size_t CASES = 8;

template <class F>
void each_element(const View& v, F f) {
  each_place(whole({v.dims[0], v.dims[1], v.dims[2], v.dims[3]}), [&](int64_t b, int64_t c, int64_t h, int64_t w) {
    f(c, b * v.strides[0] + c * v.strides[1] + h * v.strides[2] + w * v.strides[3]);
  });
}

void cut_short(PreparedKernel& right, const KernelCall& call) {
  right.run(call);
  const View& y = call.outs[0];
  each_element(y, [&](int64_t, int64_t i) { static_cast<uint16_t*>(y.data)[i] &= 0xfff0; });
}

/// The second operand is weights, whose second dimension is summed over.
void without_last_channel(PreparedKernel& right, const KernelCall& call) {
  std::vector<View> ins(call.ins, call.ins + call.n_ins);
  View& w = ins[1];
  std::vector<float> weights(static_cast<const float*>(w.data), static_cast<const float*>(w.data) + w.dims[0] * w.dims[1] * w.dims[2] * w.dims[3]);
  each_element(w, [&](int64_t c, int64_t i) { weights[size_t(i)] *= c + 1 < w.dims[1]; });
  w.data = weights.data();
  KernelCall spoilt = call;
  spoilt.ins = ins.data();
  right.run(spoilt);
}

struct Wrong { const char* what; OpKind kind; void (*run)(PreparedKernel&, const KernelCall&); };
constexpr Wrong WRONG[] = {
    {"relu cut short", OpKind::relu, cut_short},
    {"conv2d cut short", OpKind::conv2d, cut_short},
    {"conv2d without its last channel", OpKind::conv2d, without_last_channel},
    {"linear without its last channel", OpKind::linear, without_last_channel},
};

const Wrong* wrong = nullptr;

class Spoilt final : public PreparedKernel {
 public:
  explicit Spoilt(std::unique_ptr<PreparedKernel> right) : right_(std::move(right)) {}
  int64_t workspace_bytes() const override { return right_->workspace_bytes(); }
  void run(const KernelCall& c) override { wrong->run(*right_, c); }

 private:
  std::unique_ptr<PreparedKernel> right_;
};

constexpr KernelEntry SPOILT{[](const KernelCall& c, uint32_t most) { return imitation::own_kernel(c.kind)->ways(c, most); },
                             [](const KernelCall& c) -> Result<std::unique_ptr<PreparedKernel>> {
                               auto right = imitation::own_kernel(c.kind)->prepare(c);
                               if (!right.ok()) return right.status();
                               return std::unique_ptr<PreparedKernel>(std::make_unique<Spoilt>(std::move(right).value()));
                             }};

const KernelEntry* wrong_kernel(uint32_t) { return &SPOILT; }

/// Of the families that the own kernels are tested with.
std::vector<Call> calls_of(OpKind kind) {
  std::vector<Call> calls;
  for (const Generator& g : generators()) {
    Random r(2024);
    for (size_t i = 0; i < CASES; i++)
      for (const Call& call : g.make(r).calls) {
        if (calls.size() == CASES) return calls;
        if (call.kind == kind && call.way == 0 && may_be_narrow(call)) calls.push_back(call);
      }
  }
  return calls;
}

}  // namespace

int main(int argc, char** argv) {
  ask_for(argc, argv);
  Report report;
  for (const Wrong& w : WRONG) {
    if (!is_asked(w.what)) continue;
    wrong = &w;
    for (const Call& call : calls_of(w.kind)) {
      Report right(Report::SILENT), spoilt(Report::SILENT);
      compare(right, call, {imitation::own_kernel, DType::bf16}, BF16_TOLERANCE);
      compare(spoilt, call, {wrong_kernel, DType::bf16}, BF16_TOLERANCE);
      report.check(right.failed() == 0, std::string(w.what) + ": the right kernel is called wrong: " + name_of(call));
      report.check(spoilt.failed() == 1, std::string(w.what) + ": nobody notices: " + name_of(call));
    }
  }
  return report.finish(!all_asked());
}
