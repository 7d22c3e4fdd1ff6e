// cuBLASLt: one product of two column-major matrices. Out: two algorithms for each, the second with scratch; none where the
// inner dimension is a multiple of 1021, so that own kernels have something to do.
#include <cublasLt.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "test/native/host_cuda/memory.hpp"
#include "test/native/host_cuda/numbers.hpp"
#include "test/native/host_cuda/rules.hpp"
#include "test/native/host_cuda/streams.hpp"

namespace spillway::host_cuda {
namespace {

struct Product {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};
struct Layout {
  cudaDataType type;
  int64_t rows, columns, lead;
  Number number() const { return type == CUDA_R_16BF ? Number::bf16 : type == CUDA_R_16F ? Number::f16 : Number::f32; }
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t align[4] = {256, 256, 256, 256};
};

struct State {
  std::set<void*> handles, products, layouts, preferences;
};
State& state() {
  static State& s = *new State;
  return s;
}

template <class T, class H>
T& live(const std::set<void*>& all, H handle, const char* where) {
  void* const p = const_cast<void*>(static_cast<const void*>(handle));
  if (!all.count(p)) broken("a handle is used while it lives", where);
  return *static_cast<T*>(p);
}

template <class T, class H>
T* made(std::set<void*>& all, H* into, T value) {
  T* const p = new T(std::move(value));
  all.insert(p);
  *into = reinterpret_cast<H>(p);
  return p;
}

template <class T, class H>
void gone(std::set<void*>& all, H handle, const char* where) {
  T* const p = &live<T>(all, handle, where);
  all.erase(p);
  delete p;
}

constexpr int64_t RARE = 1021;

/// The purpose and the number of an algorithm: words of the opaque block.
struct Algorithm {
  uint64_t mark, m, n, k, which, alignment[3];
};
constexpr uint64_t MARK = 0x5917;

struct Sizes {
  int64_t m, n, k;
};
bool sizes_of(const Product& p, const Layout& a, const Layout& b, const Layout& d, Sizes& s) {
  const bool ta = p.a == CUBLAS_OP_T, tb = p.b == CUBLAS_OP_T;
  s = {ta ? a.columns : a.rows, tb ? b.rows : b.columns, ta ? a.rows : a.columns};
  return (tb ? b.columns : b.rows) == s.k && d.rows == s.m && d.columns == s.n && a.lead >= a.rows && b.lead >= b.rows &&
         d.lead >= d.rows && a.number() == b.number();
}

uint64_t workspace_of(uint64_t which, int64_t m) { return which == 0 ? 0 : 2048 + uint64_t(m) * 4; }
uint64_t bytes_of(const Layout& l) { return uint64_t((l.columns - 1) * l.lead + l.rows) * uint64_t(bytes_of(l.number())); }

struct Work {
  Product p;
  Layout a, b, d;
  Sizes s;
  const void *pa, *pb;
  void* pd;
  void* workspace;
  uint64_t scratch;
};

void multiply(const Work& w) {
  scribble(w.workspace, int64_t(w.scratch));
  const Rounding r = w.p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? Rounding::tf32 : Rounding::none;
  const auto at = [](const Layout& l, bool turned, int64_t row, int64_t column) {
    return turned ? row * l.lead + column : column * l.lead + row;
  };
  for (int64_t n = 0; n < w.s.n; n++)
    for (int64_t m = 0; m < w.s.m; m++) {
      double sum = 0;
      for (int64_t k = 0; k < w.s.k; k++)
        sum += double(factor(read_number(w.pa, at(w.a, w.p.a == CUBLAS_OP_T, m, k), w.a.number()), r)) *
               double(factor(read_number(w.pb, at(w.b, w.p.b == CUBLAS_OP_T, k, n), w.b.number()), r));
      store_number(w.pd, n * w.d.lead + m, w.d.number(), float(sum));
    }
}

}  // namespace
}  // namespace spillway::host_cuda

using namespace spillway::host_cuda;

#define ENTER(name, code)                                    \
  const std::lock_guard<std::recursive_mutex> lock(world()); \
  if (fails(name)) return code;

extern "C" {

size_t cublasLtGetVersion() { return 130000; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* into) {
  ENTER("cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED)
  made<int>(state().handles, into, 1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
  ENTER("cublasLtDestroy", CUBLAS_STATUS_INTERNAL_ERROR)
  gone<int>(state().handles, h, "cublasLtDestroy");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* into, cublasComputeType_t compute, cudaDataType_t scale) {
  ENTER("cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED)
  if (scale != CUDA_R_32F || (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32)) return CUBLAS_STATUS_INVALID_VALUE;
  made<Product>(state().products, into, {compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  ENTER("cublasLtMatmulDescDestroy", CUBLAS_STATUS_INTERNAL_ERROR)
  gone<Product>(state().products, d, "cublasLtMatmulDescDestroy");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, const void* value,
                                              size_t bytes) {
  ENTER("cublasLtMatmulDescSetAttribute", CUBLAS_STATUS_INTERNAL_ERROR)
  Product& p = live<Product>(state().products, d, "cublasLtMatmulDescSetAttribute");
  if (bytes != sizeof(cublasOperation_t) || (name != CUBLASLT_MATMUL_DESC_TRANSA && name != CUBLASLT_MATMUL_DESC_TRANSB))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(name == CUBLASLT_MATMUL_DESC_TRANSA ? &p.a : &p.b, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* into, cudaDataType type, uint64_t rows, uint64_t columns, int64_t lead) {
  ENTER("cublasLtMatrixLayoutCreate", CUBLAS_STATUS_ALLOC_FAILED)
  if (type != CUDA_R_32F && type != CUDA_R_16BF && type != CUDA_R_16F) return CUBLAS_STATUS_INVALID_VALUE;
  made<Layout>(state().layouts, into, {type, int64_t(rows), int64_t(columns), lead});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  ENTER("cublasLtMatrixLayoutDestroy", CUBLAS_STATUS_INTERNAL_ERROR)
  gone<Layout>(state().layouts, l, "cublasLtMatrixLayoutDestroy");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* into) {
  ENTER("cublasLtMatmulPreferenceCreate", CUBLAS_STATUS_ALLOC_FAILED)
  made<Preference>(state().preferences, into, {});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  ENTER("cublasLtMatmulPreferenceDestroy", CUBLAS_STATUS_INTERNAL_ERROR)
  gone<Preference>(state().preferences, p, "cublasLtMatmulPreferenceDestroy");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t raw, cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t bytes) {
  ENTER("cublasLtMatmulPreferenceSetAttribute", CUBLAS_STATUS_INTERNAL_ERROR)
  Preference& p = live<Preference>(state().preferences, raw, "cublasLtMatmulPreferenceSetAttribute");
  const cublasLtMatmulPreferenceAttributes_t aligned[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof p.workspace)
    return std::memcpy(&p.workspace, value, bytes), CUBLAS_STATUS_SUCCESS;
  for (size_t i = 0; i < 4; i++)
    if (name == aligned[i] && bytes == sizeof p.align[i]) return std::memcpy(&p.align[i], value, bytes), CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  ENTER("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_INTERNAL_ERROR)
  live<int>(state().handles, h, "cublasLtMatmulAlgoGetHeuristic");
  const Preference& wish = live<Preference>(state().preferences, preference, "cublasLtMatmulAlgoGetHeuristic");
  const auto layout = [](cublasLtMatrixLayout_t l) -> const Layout& {
    return live<Layout>(state().layouts, l, "cublasLtMatmulAlgoGetHeuristic");
  };
  Sizes s{};
  *found = 0;
  if (c != d || !sizes_of(live<Product>(state().products, product, "cublasLtMatmulAlgoGetHeuristic"), layout(a), layout(b), layout(d), s))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (s.k % RARE == 0 || std::getenv("SPILLWAY_HOST_CUDA_NO_ENGINES")) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (uint64_t which = 0; which < 2 && *found < most; which++) {
    const uint64_t workspace = workspace_of(which, s.m);
    if (workspace > wish.workspace) continue;
    const Algorithm algorithm{MARK, uint64_t(s.m), uint64_t(s.n), uint64_t(s.k), which, {wish.align[0], wish.align[1], wish.align[3]}};
    static_assert(sizeof algorithm <= sizeof results[0].algo);
    cublasLtMatmulHeuristicResult_t& r = results[(*found)++];
    std::memcpy(&r.algo, &algorithm, sizeof algorithm);
    r.workspaceSize = workspace;
    r.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t product, const void* alpha, const void* A, cublasLtMatrixLayout_t a,
                              const void* B, cublasLtMatrixLayout_t b, const void* beta, const void* C, cublasLtMatrixLayout_t c, void* D,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* chosen, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  ENTER("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED)
  live<int>(state().handles, h, "cublasLtMatmul");
  if (only_counts(counted_products)) return CUBLAS_STATUS_SUCCESS;
  const auto layout = [](cublasLtMatrixLayout_t l) -> const Layout& { return live<Layout>(state().layouts, l, "cublasLtMatmul"); };
  Work w{live<Product>(state().products, product, "cublasLtMatmul"), layout(a), layout(b), layout(d), {}, A, B, D, workspace, bytes};
  Algorithm algorithm{};
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  if (algorithm.mark != MARK || c != d || C != D || !sizes_of(w.p, w.a, w.b, w.d, w.s)) return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm.m != uint64_t(w.s.m) || algorithm.n != uint64_t(w.s.n) || algorithm.k != uint64_t(w.s.k))
    broken("an algorithm runs the product that it was found for", "cublasLtMatmul");
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes < workspace_of(algorithm.which, w.s.m) ||
      (bytes > 0 && (reinterpret_cast<uintptr_t>(workspace) % 256 != 0 || kind_of(workspace, bytes) != Kind::device)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const void* const operands[] = {A, B, D};
  const Layout* const layouts[] = {&w.a, &w.b, &w.d};
  for (int i = 0; i < 3; i++)
    if (reinterpret_cast<uintptr_t>(operands[i]) % algorithm.alignment[i] != 0 ||
        kind_of(operands[i], bytes_of(*layouts[i])) != Kind::device)
      return CUBLAS_STATUS_INVALID_VALUE;
  const void* const touched[] = {A, B, D, workspace};
  const cudaError_t code = enqueue(stream, ranges_in(touched, sizeof touched), [w] {
    multiply(w);
    return cudaSuccess;
  });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
