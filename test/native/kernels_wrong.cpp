// Kernels that are wrong on purpose: the comparison for the cuda device reports them, case by case, and reports nothing for the right ones.
// Errors in bf16: results truncated instead of rounded (three digits after the first, of bf16's seven), and sums without the term of the
// last channel; in TF32 such sums alone. A right kernel in TF32 rounds its factors, even if terms cancel: a result of few elements may then
// differ much from itself.
#include <algorithm>
#include <cstring>

#include "test/native/imitation/kernels.hpp"
#include "test/native/kernels/comparing.hpp"
#include "test/native/kernels/families.hpp"

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
  std::vector<float> weights(static_cast<const float*>(w.data),
                             static_cast<const float*>(w.data) + w.dims[0] * w.dims[1] * w.dims[2] * w.dims[3]);
  each_element(w, [&](int64_t c, int64_t i) { weights[size_t(i)] *= c + 1 < w.dims[1]; });
  w.data = weights.data();
  KernelCall spoilt = call;
  spoilt.ins = ins.data();
  right.run(spoilt);
}

/// TF32 has ten digits behind the first; tensor cores do not look at floats' other thirteen.
float in_tf32(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits &= ~uint32_t(0x1fff);
  std::memcpy(&v, &bits, sizeof bits);
  return v;
}

/// The first two operands are factors.
void factors_in_tf32(PreparedKernel& right, const KernelCall& call) {
  std::vector<View> ins(call.ins, call.ins + call.n_ins);
  std::vector<float> cut[2];
  for (size_t k = 0; k < 2; k++) {
    View& v = ins[k];
    const float* const data = static_cast<const float*>(v.data);
    cut[k].resize(size_t(v.dims[0] * v.dims[1] * v.dims[2] * v.dims[3]));
    each_element(v, [&](int64_t, int64_t i) { cut[k][size_t(i)] = in_tf32(data[i]); });
    v.data = cut[k].data();
  }
  KernelCall rounded = call;
  rounded.ins = ins.data();
  right.run(rounded);
}

struct Wrong {
  const char* what;
  OpKind kind;
  void (*run)(PreparedKernel&, const KernelCall&);
};
constexpr Wrong WRONG[] = {
    {"relu cut short", OpKind::relu, cut_short},
    {"conv2d cut short", OpKind::conv2d, cut_short},
    {"conv2d without its last channel", OpKind::conv2d, without_last_channel},
    {"linear without its last channel", OpKind::linear, without_last_channel},
};

constexpr Wrong WRONG_IN_TF32[] = {
    {"conv2d in tf32 without its last channel", OpKind::conv2d, without_last_channel},
    {"linear in tf32 without its last channel", OpKind::linear, without_last_channel},
};
constexpr Wrong TF32{"factors in tf32", OpKind::linear, factors_in_tf32};
constexpr OpKind PRODUCTS[] = {OpKind::conv2d, OpKind::conv2d_bwd_data, OpKind::conv2d_bwd_weights,
                               OpKind::linear, OpKind::linear_bwd_data, OpKind::linear_bwd_weights};

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

/// Weights in the parameters' layout are damaged here.
bool reads_laid(const Call& call) {
  return std::any_of(call.ins.begin(), call.ins.end(), [](const Operand& o) { return o.laid; });
}

/// The families of the own kernels' tests.
template <class F>
std::vector<Call> calls_of(OpKind kind, F wanted) {
  std::vector<Call> calls;
  for (const Generator& g : generators()) {
    Random r(2024);
    for (size_t i = 0; i < CASES; i++)
      for (const Call& call : g.make(r).calls) {
        if (calls.size() == CASES) return calls;
        if (call.kind == kind && call.way == 0 && !reads_laid(call) && wanted(call)) calls.push_back(call);
      }
  }
  return calls;
}

/// How often the comparison fails with a kernel.
int failures(const Call& call, const Setting& setting, double tolerance) {
  Report told(Report::SILENT);
  compare(told, call, setting, tolerance);
  return told.failed();
}

/// 3.001·4.001 - 2·6.003 and its like: terms that all but cancel.
Call cancelling() {
  Array x({1, 2, 1, 1}), w({1, 2, 1, 1});
  x.data = {double(3.001f), double(2.0f)};
  w.data = {double(4.001f), -double(6.003f)};
  return {OpKind::linear, {}, {tensor(x), parameter(w, 2)}, {tensor(Array({1, 1, 1, 1}))}, 2, {}, true};
}

void check_tf32(Report& report) {
  constexpr Setting OF_TERMS{wrong_kernel, DType::f32, false, false, true}, OF_RESULTS{wrong_kernel, DType::f32};
  wrong = &TF32;
  for (const OpKind kind : PRODUCTS) {
    if (!is_asked(op_info(uint32_t(kind))->kind)) continue;
    for (const Call& call : calls_of(kind, is_product))
      report.check(failures(call, OF_TERMS, TF32_TOLERANCE) == 0, "factors in tf32 are called wrong: " + name_of(call));
  }
  if (is_asked("linear")) {
    report.check(failures(cancelling(), OF_TERMS, TF32_TOLERANCE) == 0, "terms that cancel are called wrong");
    report.check(failures(cancelling(), OF_RESULTS, TF32_TOLERANCE) == 1, "these terms do not cancel");
  }
  for (const Wrong& w : WRONG_IN_TF32) {
    if (!is_asked(w.what)) continue;
    wrong = &w;
    for (const Call& call : calls_of(w.kind, is_product))
      report.check(failures(call, OF_TERMS, TF32_TOLERANCE) == 1, std::string(w.what) + ": nobody notices: " + name_of(call));
  }
}

}  // namespace

int main(int argc, char** argv) {
  ask_for(argc, argv);
  Report report;
  for (const Wrong& w : WRONG) {
    if (!is_asked(w.what)) continue;
    wrong = &w;
    for (const Call& call : calls_of(w.kind, [](const Call& c) { return may_be_narrow(c); })) {
      report.check(failures(call, {imitation::own_kernel, DType::bf16}, BF16_TOLERANCE) == 0,
                   std::string(w.what) + ": the right kernel is called wrong: " + name_of(call));
      report.check(failures(call, {wrong_kernel, DType::bf16}, BF16_TOLERANCE) == 1,
                   std::string(w.what) + ": nobody notices: " + name_of(call));
    }
  }
  check_tf32(report);
  return report.finish(!all_asked());
}
