// The fully connected layer and its gradients as oneDNN matrix products on the parameters as they lie in memory.
#include "ops/linear.hpp"

#include "cpu/channel_sums.hpp"
#include "cpu/onednn.hpp"

namespace spillway::cpu {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

/// out [rows, columns] = left [rows, inner] · right [inner, columns] (+ bias); a transposed side lies the other way round.
struct Product {
  int64_t rows, inner, columns;
  bool left_transposed, right_transposed, bias;
  bool bf16, bf16_out;  // the factors, which parameters become; the product
  /// The gradient of weights multiplies activations only, and is of floats.
  bool right_is_parameter() const { return bf16_out || !bf16; }
};

Compiled compile(const Product& p) {
  const auto left_in = [&p](bool bf16) { return factor_desc(bf16, {p.rows, p.inner}, p.left_transposed ? tag::ba : tag::ab); };
  const auto right_in = [&p](bool bf16) { return factor_desc(bf16, {p.inner, p.columns}, p.right_transposed ? tag::ba : tag::ab); };
  const memory::desc left = left_in(p.bf16), right = right_in(p.bf16);
  const memory::desc out = factor_desc(p.bf16_out, {p.rows, p.columns}, tag::ab), bias = f32_desc({1, p.columns}, tag::ab);
  const auto fast = [](const auto&... operands) { return fast_implementation<dnnl::matmul>(trust_all, std::tie(operands...)); };
  const auto found = p.bias ? fast(left, right, bias, out) : fast(left, right, out);
  if (!found) throw std::runtime_error("oneDNN has no fast implementation");
  std::vector<Argument> arguments{{DNNL_ARG_SRC, left, found->src_desc(), false},
                                  {DNNL_ARG_WEIGHTS, right_in(p.bf16 && !p.right_is_parameter()), found->weights_desc(), false},
                                  {DNNL_ARG_DST, out, found->dst_desc(), true}};
  if (p.bias) arguments.push_back({DNNL_ARG_BIAS, bias, bias, false});
  return {[found = *found] { return dnnl::matmul(found); }, found->scratchpad_desc(), arguments};
}

std::shared_ptr<const Compiled> product(const Product& p) {
  static Shared<Compiled> known;
  return known.get({p.rows, p.inner, p.columns, p.left_transposed, p.right_transposed, p.bias, p.bf16, p.bf16_out, use_threads()},
                   [&] { return compile(p); });
}

struct Forward {
  static Product of(const KernelCall& c) {
    return {ops::pixels(c.ins[0]), c.ins[0].dims[1], c.outs[0].dims[1], false, true, c.n_ins > 2, ops::is_bf16(c), ops::is_bf16(c)};
  }
  static void run(Bound& product, const KernelCall& c) {
    void* const data[] = {c.ins[0].data, c.ins[1].data, c.outs[0].data, c.n_ins > 2 ? c.ins[2].data : nullptr};
    product.run({data, c.n_ins + 1}, c.workspace);
  }
};

struct BackwardData {
  static Product of(const KernelCall& c) {
    return {ops::pixels(c.ins[0]), c.ins[0].dims[1], c.outs[0].dims[1], false, false, false, ops::is_bf16(c), ops::is_bf16(c)};
  }
  static void run(Bound& product, const KernelCall& c) {
    void* const data[] = {c.ins[0].data, c.ins[1].data, c.outs[0].data};
    product.run(data, c.workspace);
  }
};

struct BackwardWeights {
  static Product of(const KernelCall& c) {
    return {c.ins[1].dims[1], ops::pixels(c.ins[1]), c.ins[0].dims[1], true, false, false, ops::is_bf16(c), false};
  }
  static int64_t sums(const KernelCall& c) { return c.n_outs > 1 ? channel_sums_bytes<1>(c.ins[1]) : 0; }
  static void run(Bound& product, const KernelCall& c) {
    void* const data[] = {c.ins[1].data, c.ins[0].data, c.outs[0].data};
    product.run(data, c.workspace);
    if (c.n_outs > 1) bias_gradient(c.ins[1], c.workspace, c.outs[1]);
  }
};

/// `sums`: scratch of the operations after the product.
template <class Way>
class Kernel {
 public:
  explicit Kernel(const KernelCall& c)
      : compiled_(product(Way::of(c))), bound_(*compiled_), workspace_bytes_(compiled_->workspace_bytes()) {
    if constexpr (requires { Way::sums(c); }) workspace_bytes_ = std::max(workspace_bytes_, Way::sums(c));
  }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  void compile() const { compiled_->prepare(); }
  void run(const KernelCall& c) { Way::run(bound_, c); }

 private:
  std::shared_ptr<const Compiled> compiled_;
  Bound bound_;
  int64_t workspace_bytes_;
};

}  // namespace

const KernelEntry linear = entry<Kernel<Forward>>();
const KernelEntry linear_bwd_data = entry<Kernel<BackwardData>>();
const KernelEntry linear_bwd_weights = entry<Kernel<BackwardWeights>>();

}  // namespace spillway::cpu
