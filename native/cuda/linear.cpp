// Rows of ours are columns of cuBLAS: y [P,O] = x [P,C] · wᵀ is the column-major O×P product of w (C×O, turned) and x (C×P), P pixels.
#include "cuda/linear.hpp"

#include <algorithm>
#include <map>

#include "cuda/factors.hpp"
#include "cuda/own_kernels.hpp"

namespace spillway::cuda {
namespace {

constexpr int64_t MOST_WORKSPACE = int64_t(32) << 20;

/// Column-major d (m×n) = a · b, each turned or not; leading dimensions as they lie.
struct Product {
  Factors factors;
  DType stored_d;  // a gradient of weights is f32
  bool turn_a, turn_b;
  int64_t m, n, k, lda, ldb;
  auto operator<=>(const Product&) const = default;
};

/// Plans align workspaces to 64 bytes; cuBLAS wants 256.
constexpr int64_t WORKSPACE_ALIGN = 256;
constexpr int64_t aligned(int64_t bytes) { return (bytes + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN; }

struct Operands {
  const void *a, *b;
  void* d;
};

Product product_of(const KernelCall& c, Precision precision) {
  const View& w = OpKind(c.kind) == OpKind::linear_bwd_weights ? c.outs[0] : c.ins[1];
  const int64_t in = w.dims[1], out = w.dims[0], pixels = ops::pixels(c.ins[0]);
  const Factors f = factors_of(c, precision);
  switch (OpKind(c.kind)) {
    case OpKind::linear:
      return {f, stored_type(f), true, false, out, pixels, in, in, in};
    case OpKind::linear_bwd_data:
      return {f, stored_type(f), false, false, in, pixels, out, in, out};
    default:
      return {f, DType::f32, false, true, in, out, pixels, in, out};
  }
}

/// The weights that a product reads; null where it makes their gradient.
const View* weights_of(const KernelCall& c) { return OpKind(c.kind) == OpKind::linear_bwd_weights ? nullptr : &c.ins[1]; }

/// Bytes of the weights in 16 bits; they are floats where they lie.
int64_t rounded_weights(const KernelCall& c) {
  return weights_of(c) && ops::is_half(c) ? aligned(ops::elements(*weights_of(c)) * int64_t(dtype_bytes(ops::stored_type(c)))) : 0;
}

/// Scratch of a product: the weights in 16 bits, then cuBLAS's own; both from an aligned address on.
int64_t scratch_bytes(const KernelCall& c, int64_t own) {
  const int64_t bytes = rounded_weights(c) + own;
  return bytes > 0 ? bytes + WORKSPACE_ALIGN : 0;
}
std::byte* scratch_of(const KernelCall& c) {
  return reinterpret_cast<std::byte*>(aligned(int64_t(reinterpret_cast<uintptr_t>(c.workspace))));
}

Operands operands_of(const KernelCall& c) {
  if (!weights_of(c)) return {c.ins[0].data, c.ins[1].data, c.outs[0].data};
  return {rounded_weights(c) > 0 ? scratch_of(c) : c.ins[1].data, c.ins[0].data, c.outs[0].data};
}

/// As many ways as plans may name.
constexpr int MOST_CHOICES = int(MOST_REPEATING);

/// A product with its descriptors and cuBLAS's algorithms in its order; all of them repeat bit for bit. If it has none, the
/// device's own kernel runs.
struct Compiled {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulHeuristicResult_t choices[MOST_CHOICES]{};
  int found = 0;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    const CublasLt& api = cublas_lt().value();
    for (cublasLtMatrixLayout_t l : {a, b, d})
      if (l) api.cublasLtMatrixLayoutDestroy(l);
    if (product) api.cublasLtMatmulDescDestroy(product);
  }
};

Status choose(cublasLtHandle_t h, const Product& p, Compiled& c) {
  const CublasLt& api = cublas_lt().value();
  cublasLtMatmulPreference_t preference = nullptr;
  SPILLWAY_TRY(checked(api.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  const uint64_t most = MOST_WORKSPACE;
  const DType stored = stored_type(p.factors);
  const auto a = uint32_t(row_alignment(stored, p.lda)), b = uint32_t(row_alignment(stored, p.ldb)),
             d = uint32_t(row_alignment(p.stored_d, p.m));
  Status s;
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, const void* value, size_t bytes) {
    if (s.ok())
      s = checked(api.cublasLtMatmulPreferenceSetAttribute(preference, name, value, bytes), "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d, sizeof d);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d);
  if (s.ok())
    s = checked(api.cublasLtMatmulAlgoGetHeuristic(h, c.product, c.a, c.b, c.d, c.d, preference, MOST_CHOICES, c.choices, &c.found),
                "cublasLtMatmulAlgoGetHeuristic");
  api.cublasLtMatmulPreferenceDestroy(preference);
  if (s.code != Code::illegal) return s;
  c.found = 0;  // it says that it has none
  return {};
}

cudaDataType_t data_type(DType t) { return t == DType::bf16 ? CUDA_R_16BF : t == DType::f16 ? CUDA_R_16F : CUDA_R_32F; }

Status compile(const Product& p, Compiled& c) {
  const CublasLt& api = cublas_lt().value();
  const Result<cublasLtHandle_t> h = cublas_lt_handle();
  if (!h.ok()) return h.status();
  const cublasComputeType_t compute = p.factors == Factors::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  SPILLWAY_TRY(checked(api.cublasLtMatmulDescCreate(&c.product, compute, CUDA_R_32F), "cublasLtMatmulDescCreate"));
  const cublasOperation_t a = p.turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, b = p.turn_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  SPILLWAY_TRY(
      checked(api.cublasLtMatmulDescSetAttribute(c.product, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a), "cublasLtMatmulDescSetAttribute"));
  SPILLWAY_TRY(
      checked(api.cublasLtMatmulDescSetAttribute(c.product, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b), "cublasLtMatmulDescSetAttribute"));
  const cudaDataType_t factors = data_type(stored_type(p.factors));
  SPILLWAY_TRY(checked(api.cublasLtMatrixLayoutCreate(&c.a, factors, uint64_t(p.turn_a ? p.k : p.m), uint64_t(p.turn_a ? p.m : p.k), p.lda),
                       "cublasLtMatrixLayoutCreate"));
  SPILLWAY_TRY(checked(api.cublasLtMatrixLayoutCreate(&c.b, factors, uint64_t(p.turn_b ? p.n : p.k), uint64_t(p.turn_b ? p.k : p.n), p.ldb),
                       "cublasLtMatrixLayoutCreate"));
  SPILLWAY_TRY(checked(api.cublasLtMatrixLayoutCreate(&c.d, data_type(p.stored_d), uint64_t(p.m), uint64_t(p.n), p.m),
                       "cublasLtMatrixLayoutCreate"));
  return choose(h.value(), p, c);
}

Result<const Compiled*> compiled(const Product& p) {
  static std::mutex mutex;
  static auto& known = *new std::map<Product, std::unique_ptr<Compiled>>;  // the libraries may be gone before statics are
  const std::lock_guard lock(mutex);
  std::unique_ptr<Compiled>& of_product = known[p];
  if (of_product) return of_product.get();
  auto made = std::make_unique<Compiled>();
  if (Status s = compile(p, *made); !s.ok()) return s;
  of_product = std::move(made);
  return of_product.get();
}

/// The algorithm of a product that the way names.
Result<const cublasLtMatmulHeuristicResult_t*> chosen(const Compiled& c, uint32_t way) {
  const Rank choice = rank_of(way);
  if (choice.loose || int(choice.rank) >= c.found) return refuse("cuBLAS has no algorithm of this number for this product");
  return &c.choices[choice.rank];
}

/// The bias that a call writes or adds; null when it has none.
const View* bias_of(const KernelCall& c) {
  if (OpKind(c.kind) == OpKind::linear) return c.n_ins > 2 ? &c.ins[2] : nullptr;
  return c.n_outs > 1 ? &c.outs[1] : nullptr;
}

int64_t workspace_with(const KernelCall& c, const cublasLtMatmulHeuristicResult_t& way) {
  const bool sums = OpKind(c.kind) == OpKind::linear_bwd_weights && bias_of(c);
  return std::max(scratch_bytes(c, int64_t(way.workspaceSize)), sums ? bias_gradient_workspace(c.ins[1]) : 0);
}

class Linear final : public Ready {
 public:
  Linear(const KernelCall& c, const Compiled& compiled, const cublasLtMatmulHeuristicResult_t& way)
      : Ready(c),
        compiled_(compiled),
        way_(way),
        workspace_bytes_(workspace_with(c, way)),
        rounded_(rounded_weights(c)),
        bias_(bias_of(call())) {}
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  Status run(const Context& context) const override {
    const cudaStream_t stream = context.stream(Lane::compute);
    if (rounded_ > 0) SPILLWAY_TRY(weights_to_channels_last(*weights_of(call()), ops::stored_type(call()), scratch_of(call()), stream));
    const Operands o = operands_of(call());
    const float one = 1, zero = 0;
    SPILLWAY_TRY(checked(
        cublas_lt().value().cublasLtMatmul(cublas_lt_handle().value(), compiled_.product, &one, o.a, compiled_.a, o.b, compiled_.b, &zero,
                                           o.d, compiled_.d, o.d, compiled_.d, &way_.algo,
                                           way_.workspaceSize > 0 ? scratch_of(call()) + rounded_ : nullptr, way_.workspaceSize, stream),
        "cublasLtMatmul"));
    if (!bias_) return {};
    return OpKind(call().kind) == OpKind::linear ? finish_pixels(call().outs[0], bias_, 1, stream)
                                                 : sum_bias_gradient(call().ins[1], *bias_, call().workspace, context);
  }

 private:
  const Compiled& compiled_;  // of the process
  const cublasLtMatmulHeuristicResult_t& way_;
  const int64_t workspace_bytes_, rounded_;
  const View* const bias_;
};

}  // namespace

Result<std::vector<Way>> linear_ways(const KernelCall& call, Precision precision, uint32_t most) {
  const Result<const Compiled*> c = compiled(product_of(call, precision));
  if (!c.ok()) return c.status();
  if (c.value()->found == 0) return std::vector{Way{0, true, uint64_t(own_functions(call.kind)->workspace(call)), "own"}};
  return library_ways(most, "cuBLAS", [&](uint32_t number) -> Result<LibraryWay> {
    const auto way = chosen(*c.value(), number);
    return way.ok() ? Result<LibraryWay>({workspace_with(call, *way.value()), NO_NUMBER}) : Result<LibraryWay>(way.status());
  });
}

Result<std::unique_ptr<Ready>> ready_linear(const KernelCall& call, Precision precision) {
  const Result<const Compiled*> c = compiled(product_of(call, precision));
  if (!c.ok()) return c.status();
  if (c.value()->found == 0 && call.way == 0) return ready_own(call);
  const auto way = chosen(*c.value(), call.way);
  if (!way.ok()) return way.status();
  return std::unique_ptr<Ready>(std::make_unique<Linear>(call, *c.value(), *way.value()));
}

}  // namespace spillway::cuda
