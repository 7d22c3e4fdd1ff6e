// The inputs of a kernel: operand views, attributes, the context of the step. All operators on all devices have one signature. In: a
// call. Out: the ways to run it, and prepared kernels. Invariant: while it runs, a prepared kernel checks nothing, looks nothing up
// and allocates nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/outside.hpp"
#include "core/result.hpp"
#include "gen/wire.h"

namespace spillway {

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

struct Communicator;

/// Values that change from step to step.
struct StepContext {
  uint64_t step = 1;  // the first step is 1
  uint64_t seed = 0;
  double lr_scale = 1.0;
  Communicator* communicator = nullptr;  // of one rank among several
  double* skipped = nullptr;             // of a masked network: the share of its work that the call at hand skips, from 0 to 1
  const Outside* outside = nullptr;      // of a masked network, as far as pixels of the call at hand are left out
};

struct KernelCall {
  uint32_t kind = 0;  // wire number of the operator
  const View* ins = nullptr;
  uint32_t n_ins = 0;
  const View* outs = nullptr;
  uint32_t n_outs = 0;
  const double* attrs = nullptr;  // in the op table's field order; gen/ops.h has a struct for each operator
  uint32_t n_attrs = 0;
  void* workspace = nullptr;  // 64-byte aligned, at least what the kernel asked for when it was prepared
  uint32_t way = 0;           // a number that only the device understands; 0 is its first choice
  const StepContext* step = nullptr;
};

/// Returns true in a masked network whose empty parts are skipped.
inline bool is_masked(const KernelCall& c) { return c.step && c.step->skipped; }

/// The pixels of a call that belong to a mask, also if none is outside; or null.
inline const Outside* masked_pixels(const KernelCall& c) {
  return c.step && c.step->outside && c.step->outside->blocks ? c.step->outside : nullptr;
}

/// The pixels to leave out, or null.
inline const Outside* outside_of(const KernelCall& c) {
  const Outside* const pixels = masked_pixels(c);
  return pixels && !pixels->full ? pixels : nullptr;
}

/// Returns true if a kernel should look for zeros in its operands.
inline bool seeks_zeros(const KernelCall& c) { return is_masked(c) && !(masked_pixels(c) && masked_pixels(c)->full); }

/// One way to run a call, as its device describes it.
struct Way {
  uint32_t number = 0;
  bool repeats = true;  // the same bits each time
  uint64_t workspace_bytes = 0;
  char name[24] = {};  // for people
};

/// More than any device has.
constexpr uint32_t MOST_WAYS = 32;

/// A kernel prepared for one call: all that follows from shapes, attributes and way is checked and computed once.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  virtual int64_t workspace_bytes() const = 0;
  /// Generates code where there is any to generate, which takes longer than all the rest.
  virtual void compile() {}
  /// Runs the prepared call on the current addresses of its operands. It may throw exceptions of
  /// libraries.
  virtual void run(const KernelCall&) = 0;
};

/// A device's entry for one operator. Views may have null data in both.
struct KernelEntry {
  /// The ways that are worth trying, way 0 first, at most `most`; an error if the call is not legal.
  Result<std::vector<Way>> (*ways)(const KernelCall&, uint32_t most);
  /// In the call's way, which may be one that is not worth trying.
  Result<std::unique_ptr<PreparedKernel>> (*prepare)(const KernelCall&);
};

/// Null when the device has no such operator. Defined once per device (ref, cpu, null) from SPILLWAY_OPS in gen/ops.h.
using KernelTable = const KernelEntry* (*)(uint32_t wire);

namespace ref {
const KernelEntry* kernel(uint32_t wire);
}
namespace cpu {
const KernelEntry* kernel(uint32_t wire);
void set_threads(int threads);
void bind_threads(const int* processors, uint32_t count, bool each);
void forget();
std::string library();
bool has_bf16();
}  // namespace cpu
namespace null {
const KernelEntry* kernel(uint32_t wire);
}

}  // namespace spillway
