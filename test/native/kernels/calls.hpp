// Runs one kernel call on any device, element type, strides and boxes. In: a Call on whole values. Out: its results. Invariant: every
// operand and the workspace are between guard bytes, and untouchable bytes are checked.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>

#include "core/half.hpp"
#include "core/kernel.hpp"
#include "gen/ops.h"
#include "ops/table.hpp"
#include "test/native/kernels/arrays.hpp"

namespace spillway::test {

/// How an operand's rows or columns follow from the iteration range (as in the op table).
enum class Reach { same, window, met, all };

struct Operand {
  Array value;   // whole; for outputs the dims count, and the start value where the op reads it
  int rank = 4;  // 4 with `tensor`: an activation; otherwise dense in natural order
  bool tensor = true;
  bool labels = false;
  Reach spatial = Reach::same;
  bool laid = false;  // a weight
};

inline Operand tensor(const Array& a, Reach spatial = Reach::same) { return {a, 4, true, false, spatial}; }
inline Operand parameter(const Array& a, int rank) { return {a, rank, false, false, Reach::all}; }
/// A weight that lies as activations do: channels innermost, stored as they are.
inline Operand laid_out(const Array& a) { return {a, 4, true, false, Reach::all, true}; }
inline Operand labelled(const Array& a) { return {a, 4, true, true, Reach::same}; }

/// Ways of the cpu device's convolutions.
constexpr uint32_t DIRECT = 0, WINOGRAD = 1, TAPS = 2, GROUPED = 3;

struct WindowShape {
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};
};

struct Call {
  OpKind kind;
  std::vector<double> attrs;
  std::vector<Operand> ins, outs;
  size_t anchor = 0;  // of ins then outs: whose box is the iteration space
  WindowShape window{};
  bool dense = false;             // wants operands without gaps
  int in_place = -1;              // the input whose bytes output 0 may be
  std::vector<size_t> mutated{};  // inputs that the op overwrites
  uint64_t step = 3, seed = 12345;
  /// For operands of Reach::met: the first and the last row (axis 0) or column (axis 1) that iterations [lo, hi) meet.
  std::function<std::pair<int64_t, int64_t>(int axis, int64_t lo, int64_t hi)> meets{};
  uint32_t way = 0;  // the reference device has one for all

  const Operand& operand(size_t i) const { return i < ins.size() ? ins[i] : outs[i - ins.size()]; }
  size_t operands() const { return ins.size() + outs.size(); }
};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Bytes between two guards.
class Guarded {
 public:
  explicit Guarded(size_t bytes)
      : bytes_((bytes + 63) / 64 * 64), memory_(static_cast<unsigned char*>(std::aligned_alloc(64, bytes_ + 2 * guard)), &std::free) {
    std::memset(memory_.get(), fresh, bytes_ + 2 * guard);
  }
  void* data() const { return memory_.get() + guard; }
  bool intact() const { return untouched(-int64_t(guard), 0) && untouched(int64_t(bytes_), int64_t(bytes_ + guard)); }
  bool untouched(int64_t from, int64_t to) const {
    const unsigned char* first = memory_.get() + guard;
    return std::all_of(first + from, first + to, [](unsigned char byte) { return byte == fresh; });
  }
  std::vector<unsigned char> copy() const { return {memory_.get(), memory_.get() + bytes_ + 2 * guard}; }
  bool equals(const std::vector<unsigned char>& copy) const { return std::memcmp(memory_.get(), copy.data(), copy.size()) == 0; }

 private:
  static constexpr unsigned char fresh = 0xA5;
  static constexpr size_t guard = 4096;
  size_t bytes_;
  std::unique_ptr<unsigned char, void (*)(void*)> memory_;
};

/// The type that an operand is stored in: a 16-bit type stands for a call on such activations, whose parameters and sums are f32.
inline DType stored_type(const Call& call, size_t i, DType wanted) {
  if (call.operand(i).labels) return DType::i32;
  const OpInfo& op = *op_info(uint32_t(call.kind));
  const size_t ins = call.ins.size();
  const Element e = i < ins ? op.in(uint32_t(i)).element : op.out(uint32_t(i - ins)).element;
  if (e == Element::u8) return DType::u8;
  if (e == Element::bf16) return DType::bf16;
  if (e == Element::f16) return DType::f16;
  if (!ops::is_half(wanted)) return wanted;
  return e == Element::either || e == Element::any || call.operand(i).laid ? wanted : DType::f32;
}

/// Returns true if an operator takes activations in 16 bits.
inline bool may_be_narrow(const Call& call, DType half = DType::bf16) {
  for (size_t i = 0; i < call.operands(); i++)
    if (call.operand(i).tensor && stored_type(call, i, half) == half) return true;
  return false;
}

/// A box of a value in memory, in any element type, with or without gaps between pixels, rows and images.
class Placed {
 public:
  Placed(const Operand& operand, const Box& box, DType dtype, bool gaps)
      : box_(box), gaps_(gaps && operand.tensor), memory_(layout(operand, box, dtype)) {
    each_place(whole(box.size), [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      set(b, c, h, w, operand.value.at(b + box.lo[0], c + box.lo[1], h + box.lo[2], w + box.lo[3]));
    });
    view.data = memory_.data();
    placed_ = memory_.copy();
  }
  Array read() const {
    Array a(box_.size);
    each_place(whole(box_.size), [&](int64_t b, int64_t c, int64_t h, int64_t w) { a.at(b, c, h, w) = get(b, c, h, w); });
    return a;
  }
  /// Returns true if all is unchanged: values, gaps, guards.
  bool unchanged() const { return memory_.equals(placed_); }
  /// Returns true if the guards and the gaps are unchanged.
  bool intact() const {
    const int64_t size = int64_t(dtype_bytes(view.dtype));
    int64_t next = 0;
    bool ok = memory_.intact();
    if (!gaps_) return ok;
    std::vector<int64_t> used;
    each_place(whole(box_.size), [&](int64_t b, int64_t c, int64_t h, int64_t w) { used.push_back(index(b, c, h, w)); });
    std::sort(used.begin(), used.end());
    for (const int64_t i : used) {
      ok = ok && memory_.untouched(next * size, i * size);
      next = i + 1;
    }
    return ok;
  }

  View view{};

 private:
  Guarded layout(const Operand& operand, const Box& box, DType dtype) {
    const bool channels_last = operand.tensor;
    const int64_t pad = gaps_ ? 1 : 0;
    view.dtype = dtype;
    view.rank = uint32_t(operand.rank);
    const int order[2][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}};  // innermost first
    int64_t stride = 1;
    for (int i = 0; i < 4; i++) {
      const int d = order[channels_last][i];
      view.strides[d] = stride;
      stride = stride * box.size[d] + pad * (2 * i + 1);
    }
    for (int d = 0; d < 4; d++) {
      view.dims[d] = box.size[d];
      view.origin[d] = box.lo[d];
      view.extent[d] = operand.value.dims[d];
    }
    return Guarded(size_t(stride) * dtype_bytes(dtype));
  }
  int64_t index(int64_t b, int64_t c, int64_t h, int64_t w) const {
    return b * view.strides[0] + c * view.strides[1] + h * view.strides[2] + w * view.strides[3];
  }
  void set(int64_t b, int64_t c, int64_t h, int64_t w, double v) {
    const int64_t i = index(b, c, h, w);
    if (view.dtype == DType::f64)
      static_cast<double*>(memory_.data())[i] = v;
    else if (view.dtype == DType::f32)
      static_cast<float*>(memory_.data())[i] = float(v);
    else if (view.dtype == DType::bf16)
      static_cast<Bf16*>(memory_.data())[i] = Bf16(v);
    else if (view.dtype == DType::f16)
      static_cast<F16*>(memory_.data())[i] = F16(v);
    else if (view.dtype == DType::u8)
      static_cast<uint8_t*>(memory_.data())[i] = uint8_t(v);
    else
      static_cast<int32_t*>(memory_.data())[i] = int32_t(v);
  }
  double get(int64_t b, int64_t c, int64_t h, int64_t w) const {
    const int64_t i = index(b, c, h, w);
    if (view.dtype == DType::f64) return static_cast<const double*>(memory_.data())[i];
    if (view.dtype == DType::f32) return static_cast<const float*>(memory_.data())[i];
    if (view.dtype == DType::bf16) return double(static_cast<const Bf16*>(memory_.data())[i]);
    if (view.dtype == DType::f16) return double(static_cast<const F16*>(memory_.data())[i]);
    if (view.dtype == DType::u8) return static_cast<const uint8_t*>(memory_.data())[i];
    return static_cast<const int32_t*>(memory_.data())[i];
  }

  Box box_;
  bool gaps_;
  Guarded memory_;
  std::vector<unsigned char> placed_;
};

struct Setting {
  KernelTable device;
  DType dtype;
  bool gaps = false;
  bool in_place = false;
  bool rounds_factors = false;  // TF32: products are off by their terms' size
};

/// Runs a call on boxes of its operands; gives the outputs' boxes, then the mutated inputs.
inline std::vector<Array> run_on(const Call& call, const Setting& setting, const std::vector<Box>& boxes) {
  std::vector<std::unique_ptr<Placed>> placed;
  for (size_t i = 0; i < call.operands(); i++)
    placed.push_back(std::make_unique<Placed>(call.operand(i), boxes[i], stored_type(call, i, setting.dtype), setting.gaps && !call.dense));
  std::vector<View> views;
  for (const auto& p : placed) views.push_back(p->view);
  const size_t n = call.ins.size();
  const bool in_place = setting.in_place && call.in_place >= 0;
  if (in_place) views[n] = views[size_t(call.in_place)];

  const StepContext step{call.step, call.seed, 1.0};
  KernelCall c{uint32_t(call.kind),
               views.data(),
               uint32_t(n),
               views.data() + n,
               uint32_t(call.outs.size()),
               call.attrs.data(),
               uint32_t(call.attrs.size()),
               nullptr,
               call.way,
               &step};
  const KernelEntry* entry = setting.device(c.kind);
  if (!entry) throw Failure("the device lacks the operator");
  const Result<std::unique_ptr<PreparedKernel>> made = entry->prepare(c);
  if (!made.ok()) throw Failure(made.status().message);
  PreparedKernel& kernel = *made.value();
  kernel.compile();
  const Guarded workspace{size_t(kernel.workspace_bytes())};
  c.workspace = workspace.data();
  kernel.run(c);

  std::vector<Array> results;
  for (size_t i = 0; i < call.outs.size(); i++) results.push_back(placed[in_place && i == 0 ? size_t(call.in_place) : n + i]->read());
  for (const size_t i : call.mutated) results.push_back(placed[i]->read());
  if (!workspace.intact()) throw Failure("wrote outside its workspace");
  for (size_t i = 0; i < placed.size(); i++) {
    const bool may_change =
        i >= n || (in_place && int(i) == call.in_place) || std::find(call.mutated.begin(), call.mutated.end(), i) != call.mutated.end();
    if (may_change ? !placed[i]->intact() : !placed[i]->unchanged())
      throw Failure((may_change ? "wrote outside operand " : "changed input ") + std::to_string(i));
  }
  return results;
}

inline std::vector<Box> whole_boxes(const Call& call) {
  std::vector<Box> boxes;
  for (size_t i = 0; i < call.operands(); i++) boxes.push_back(whole(call.operand(i).value.dims));
  return boxes;
}

inline std::vector<Array> run_whole(const Call& call, const Setting& setting) { return run_on(call, setting, whole_boxes(call)); }

inline std::string name_of(const Call& call) {
  std::string s = op_info(uint32_t(call.kind))->kind;
  for (size_t i = 0; i < call.operands(); i++) s += (i == call.ins.size() ? " -> " : " ") + text(call.operand(i).value.dims);
  s += " attrs";
  for (const double a : call.attrs) s += " " + std::to_string(a).substr(0, 6);
  if (call.way > 0) s += call.way == WINOGRAD ? " by winograd" : call.way == TAPS ? " by taps" : " by groups";
  return s;
}

}  // namespace spillway::test
