// The marks of calls, resolved. In: a call, the numbers of a made mask. Out: the pixels of the call that are outside. Invariant: blocks
// that no call has made yet count as inside.
#include "runtime/outside.hpp"

#include <algorithm>

namespace spillway {
namespace {

Outside::Axis axis_of(const ViewRecord& v, int d, int64_t blocks) {
  return {int64_t(v.origin[d]), int64_t(v.dims[d]), int64_t(v.extent[d]), blocks};
}

/// A number of a mask.
bool is_inside(const std::byte* at, DType type) {
  if (type == DType::f64) return *reinterpret_cast<const double*>(at) != 0;
  if (type == DType::f32) return *reinterpret_cast<const float*>(at) != 0;
  return (*reinterpret_cast<const uint16_t*>(at) & 0x7fff) != 0;  // halves, of either sign
}

}  // namespace

bool Masks::are_in(const Tape& tape) {
  return std::any_of(tape.calls.begin(), tape.calls.end(), [](const CallRecord& c) { return c.makes_mask(); });
}

Masks::Masks(const Tape& tape) : tape_(tape) {
  for (uint32_t call = 0; call < tape.calls.size(); call++) {
    const ViewRecord* const v = made_by(call);
    if (!v) continue;
    const uint32_t number = tape.calls[call].mask;
    masks_.resize(std::max<size_t>(masks_.size(), number + 1));
    masks_[number] = {v->extent[2], v->extent[3], std::vector<uint8_t>(size_t(v->extent[0]) * v->extent[2] * v->extent[3], 1)};
  }
}

Outside Masks::outside_of(uint32_t call) const {
  const CallRecord& c = tape_.calls[call];
  if (c.mask == NONE || c.makes_mask()) return {};
  const ViewRecord& v = tape_.views[tape_.operands[c.first_operand + c.masked]];
  const Mask& mask = masks_[c.mask];
  const int64_t image = mask.rows * mask.columns;
  Outside found{mask.blocks.data() + v.origin[0] * image, axis_of(v, 2, mask.rows), axis_of(v, 3, mask.columns), c.fills()};
  const auto last = [](const Outside::Axis& axis) { return axis.block_of(axis.count - 1) + 1; };
  const int64_t from = found.w.block_of(0), to = last(found.w);
  bool any_inside = false, any_outside = false;
  for (int64_t i = 0; i < v.dims[0]; i++)
    for (int64_t row = found.h.block_of(0); row < last(found.h); row++) {
      const uint8_t* const blocks = found.blocks + i * image + row * mask.columns;
      const int64_t inside = std::count_if(blocks + from, blocks + to, [](uint8_t b) { return b != 0; });
      any_inside |= inside > 0;
      any_outside |= inside < to - from;
    }
  found.full = !any_outside;
  found.empty = !any_inside;
  return found;
}

const ViewRecord* Masks::made_by(uint32_t call) const {
  const CallRecord& c = tape_.calls[call];
  return c.makes_mask() ? &tape_.views[tape_.operands[c.first_operand + c.ins]] : nullptr;
}

void Masks::keep(uint32_t call, const std::byte* made) {
  const ViewRecord& v = *made_by(call);
  Mask& mask = masks_[tape_.calls[call].mask];
  for (uint64_t b = 0; b < v.dims[0]; b++)
    for (uint64_t h = 0; h < v.dims[2]; h++)
      for (uint64_t w = 0; w < v.dims[3]; w++) {
        const uint64_t element = b * v.strides[0] + h * v.strides[2] + w * v.strides[3];
        const uint64_t row = (v.origin[0] + b) * uint64_t(mask.rows) + v.origin[2] + h;
        mask.blocks[row * uint64_t(mask.columns) + v.origin[3] + w] = is_inside(made + element * dtype_bytes(v.dtype), v.dtype);
      }
}

}  // namespace spillway
