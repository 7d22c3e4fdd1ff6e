// What a kernel sees: operand views, attributes, the step's context. One signature for every operator on every device.
// Invariant: a kernel allocates nothing while it runs (apart from one-time caches of compiled primitives, made in prepare).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/result.hpp"

namespace spillway {

enum class DType : uint32_t { f32 = 0, f64 = 1, i32 = 2, bf16 = 3 };

constexpr size_t dtype_bytes(DType t) { return t == DType::f64 ? 8 : t == DType::bf16 ? 2 : 4; }

/// A box of a value in memory. Rank 4 activations: dims are B, C, H, W, strides in elements (C is 1: channels-last);
/// `origin` is where the box lies in the whole value, `extent` the whole value's dims. Others: dense, natural order.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  uint32_t rank = 0;
  int64_t dims[4] = {1, 1, 1, 1};
  int64_t strides[4] = {0, 0, 0, 0};
  int64_t origin[4] = {0, 0, 0, 0};
  int64_t extent[4] = {1, 1, 1, 1};
};

/// What changes from step to step.
struct StepContext {
  uint64_t step = 1;   // the first step is 1
  uint64_t seed = 0;
  double lr_scale = 1.0;
};

/// The ways to run one operator, as plans number them; a kernel refuses those that it does not have for a call. `direct` is a
/// library's first choice too; behind it come others of its choices that repeat bit for bit, and those that need not (loose).
enum class Algorithm : uint32_t { direct = 0, winograd = 1, taps = 2, library2 = 3, library3 = 4, library4 = 5, loose1 = 6, loose2 = 7, loose3 = 8 };
constexpr uint32_t ALGORITHMS = 9;

/// A library's choice: its rank among those that repeat bit for bit, or among those that need not.
struct LibraryChoice { uint32_t rank; bool loose; };
constexpr bool is_library_choice(Algorithm a) { return a == Algorithm::direct || (a >= Algorithm::library2 && uint32_t(a) < ALGORITHMS); }
constexpr LibraryChoice library_choice(Algorithm a) {
  const auto rank_behind = [a](Algorithm first) { return uint32_t(a) - uint32_t(first); };
  if (a == Algorithm::direct) return {0, false};
  return a < Algorithm::loose1 ? LibraryChoice{1 + rank_behind(Algorithm::library2), false} : LibraryChoice{rank_behind(Algorithm::loose1), true};
}

struct KernelCall {
  uint32_t kind = 0;             // wire number of the operator
  const View* ins = nullptr;
  uint32_t n_ins = 0;
  const View* outs = nullptr;
  uint32_t n_outs = 0;
  const double* attrs = nullptr;  // in the op table's field order; gen/ops.h has a struct for each operator
  uint32_t n_attrs = 0;
  void* workspace = nullptr;      // 64-byte aligned, at least what workspace_bytes() said for these shapes
  size_t workspace_bytes = 0;
  Algorithm algorithm = Algorithm::direct;
  const StepContext* step = nullptr;
};

/// A device's entry for one operator. All three must agree on what shapes are legal; views in `prepare` and `workspace_bytes` may have null data.
struct KernelEntry {
  /// Scratch bytes that `run` needs for these shapes; -1 when the shapes are not legal for the operator.
  int64_t (*workspace_bytes)(const KernelCall&);
  /// Builds and caches what `run` needs (a oneDNN primitive), before the first step.
  Status (*prepare)(const KernelCall&);
  Status (*run)(const KernelCall&);
};

/// Null when the device has no such operator. Defined once per device (ref, cpu, null) from SPILLWAY_OPS in gen/ops.h.
using KernelTable = const KernelEntry* (*)(uint32_t wire);

namespace ref { const KernelEntry* kernel(uint32_t wire); }
namespace cpu { const KernelEntry* kernel(uint32_t wire); void set_threads(int threads); void bind_threads(const int* processors, uint32_t count, bool each); void forget(); std::string library(); bool has_bf16(); }
namespace null { const KernelEntry* kernel(uint32_t wire); }

}  // namespace spillway
