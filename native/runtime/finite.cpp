// A box is read in spans: all of it where it is dense, else row by row (rows hold all channels). Elements of other boxes that lie
// between are passed over by their place.
// Worked example: 2 channels of 3x5 pixels at columns 1 to 3 of a value 5 wide: 3 spans of 6 elements, 10 apart.
#include "runtime/finite.hpp"

#include <algorithm>
#include <cmath>

#include "core/half.hpp"

namespace spillway {
namespace {

double number(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return *reinterpret_cast<const float*>(at);
    case DType::f64:
      return *reinterpret_cast<const double*>(at);
    case DType::bf16:
      return double(*reinterpret_cast<const Bf16*>(at));
    case DType::f16:
      return double(*reinterpret_cast<const F16*>(at));
    case DType::i32:
    case DType::u8:
      break;
  }
  return 0;
}

/// Elements from the first to the last of some dims.
uint64_t span(const ViewRecord& v, std::initializer_list<int> dims) {
  uint64_t last = 0;
  for (const int d : dims) last += uint64_t(v.dims[d] - 1) * v.strides[d];
  return last + 1;
}

/// The place of element `n` from the box's start, or none where it is not of the box: the longest stride tells the most.
bool place_of(const ViewRecord& v, uint64_t n, uint32_t (&at)[4]) {
  int order[4] = {0, 1, 2, 3};
  std::sort(order, order + 4, [&](int a, int b) { return v.strides[a] > v.strides[b]; });
  for (const int d : order) {
    const uint64_t i = v.strides[d] == 0 || v.dims[d] == 1 ? 0 : n / v.strides[d];
    if (i >= v.dims[d]) return false;
    n -= i * v.strides[d];
    at[d] = v.origin[d] + uint32_t(i);
  }
  return n == 0;
}

}  // namespace

Result<std::optional<NotFinite>> FiniteSearch::in_span(const ViewRecord& v, uint64_t first, uint64_t count) {
  const uint64_t element = dtype_bytes(v.dtype), most = block_.size() / element;
  const std::byte* const start = pages_.at(v.buffer, v.offset);
  for (uint64_t done = 0; done < count; done += most) {
    const uint64_t n = std::min(most, count - done);
    Status s = device_.copy(Lane::compute, block_.data(), start + (first + done) * element, n * element);
    if (s.ok()) s = device_.finish(Lane::compute);
    if (!s.ok()) return s;
    for (uint64_t i = 0; i < n; i++) {
      NotFinite found;
      found.value = number(block_.data() + i * element, v.dtype);
      if (!std::isfinite(found.value) && place_of(v, first + done + i, found.at)) return std::optional(found);
    }
  }
  return std::optional<NotFinite>();
}

Result<std::optional<NotFinite>> FiniteSearch::in(const ViewRecord& v) {
  if (v.dtype == DType::i32 || v.dtype == DType::u8 || v.buffer == NONE) return std::optional<NotFinite>();
  const uint64_t all = span(v, {0, 1, 2, 3}), elements = uint64_t(v.dims[0]) * v.dims[1] * v.dims[2] * v.dims[3];
  if (all == elements) return in_span(v, 0, all);
  for (uint64_t b = 0; b < v.dims[0]; b++)
    for (uint64_t h = 0; h < v.dims[2]; h++)
      if (auto found = in_span(v, b * v.strides[0] + h * v.strides[2], span(v, {1, 3})); !found.ok() || found.value()) return found;
  return std::optional<NotFinite>();
}

Result<std::optional<NotFinite>> FiniteSearch::among(uint32_t call, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    auto found = in(tape_.views[tape_.operands[tape_.calls[call].first_operand + i]]);
    if (!found.ok()) return found;
    if (!found.value()) continue;
    found.value()->call = call;
    found.value()->operand = i;
    return found;
  }
  return std::optional<NotFinite>();
}

Result<std::optional<NotFinite>> FiniteSearch::before(uint32_t call) { return among(call, 0, tape_.calls[call].ins); }

/// An output may lie where an input was, so outputs come first.
Result<std::optional<NotFinite>> FiniteSearch::after(uint32_t call) {
  const CallRecord& c = tape_.calls[call];
  auto found = among(call, c.ins, uint32_t(c.ins) + c.outs);
  if (found.ok() && !found.value()) found = before(call);
  if (found.ok() && found.value()) found.value()->made = true;
  return found;
}

}  // namespace spillway
