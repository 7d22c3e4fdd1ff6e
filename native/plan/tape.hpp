// The tape's records as docs/tape.md lays them out, and the tape as the reader hands it on.
// Invariant: records are plain old data of the widths on the wire; a Tape that comes from read_tape() has passed every check.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/kernel.hpp"

namespace spillway {

constexpr uint32_t NONE = 0xffffffff;
constexpr uint64_t PAGE_BYTES = 2097152;
/// Copies start and tier slots lie at multiples of this: direct I/O wants it.
constexpr uint64_t SECTOR_BYTES = 4096;
constexpr uint64_t ALIGN_BYTES = 64;

struct BufferRecord { uint64_t pages, bytes; };

struct MappingRecord { uint32_t buffer, va_page, phys_page, count, residency, reserved; };

struct ResidencyRecord {
  uint32_t pages, flags;
  uint64_t reserved;
  bool for_ever() const { return flags & 1; }
};

struct ViewRecord {
  uint32_t buffer, dtype;
  uint64_t offset;
  uint32_t dims[4];
  uint64_t strides[4];
  uint32_t origin[4], extent[4];
  uint32_t rank, reserved;
};

struct CallRecord {
  uint16_t kind, ins, outs, flags;
  uint32_t first_operand, first_attr, attrs, workspace_view, op, segment, tile, way;
  double seconds;
  uint64_t flops;
  bool recompute() const { return flags & 1; }
};

enum class Tag : uint32_t { call = 1, acquire, release, copy_out, copy_in, wait, mark };

struct InstrRecord { uint32_t tag, a, b, c; };

struct TransferRecord {
  uint32_t residency, buffer;
  uint64_t offset, bytes;
  uint32_t from, binding;
  uint64_t far_offset;  // in the lower tier, or in the source's value
  uint64_t reserved;
  bool from_source() const { return from == 1; }
};

enum class BindingRole : uint32_t { param, state, input, target, loss };

struct BindingRecord {
  uint32_t role, view, name_offset, name_bytes, dist, dtype;
  double a;
  bool fed() const { return BindingRole(role) == BindingRole::input || BindingRole(role) == BindingRole::target; }
  bool persistent() const { return BindingRole(role) == BindingRole::param || BindingRole(role) == BindingRole::state; }
};

static_assert(sizeof(BufferRecord) == 16 && sizeof(MappingRecord) == 24 && sizeof(ResidencyRecord) == 16);
static_assert(sizeof(ViewRecord) == 104 && sizeof(CallRecord) == 56 && sizeof(InstrRecord) == 16);
static_assert(sizeof(TransferRecord) == 48 && sizeof(BindingRecord) == 32);

struct Tape {
  DType float_type = DType::f32;
  uint32_t events = 0;
  uint64_t budget_pages = 0, peak_pages = 0, pool_pages = 0, tier_bytes = 0;
  std::vector<BufferRecord> buffers;
  std::vector<MappingRecord> mappings;  // sorted by buffer, then virtual page
  std::vector<ResidencyRecord> residencies;
  std::vector<ViewRecord> views;
  std::vector<CallRecord> calls;
  std::vector<uint32_t> operands;
  std::vector<double> attrs;
  std::vector<InstrRecord> instrs;
  std::vector<TransferRecord> transfers;
  std::vector<BindingRecord> bindings;
  std::vector<char> strings;

  std::string_view name(const BindingRecord& b) const { return {strings.data() + b.name_offset, b.name_bytes}; }
};

}  // namespace spillway
