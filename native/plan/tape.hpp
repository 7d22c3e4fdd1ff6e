// The tape as the reader hands it on. Records are those of gen/wire.h.
// Invariant: a Tape that comes from read_tape() has passed every check.
#pragma once
#include <string_view>

#include "gen/wire.h"

namespace spillway {

struct Tape : Sections {  // mappings are sorted by buffer, then virtual page
  DType float_type = DType::f32;
  uint32_t events = 0;
  uint64_t budget_pages = 0, peak_pages = 0, tier_bytes = 0;

  /// Returns true if the named value is in the lower tier between steps.
  bool at_home(const BindingRecord& b) const { return b.persistent() && views[b.view].buffer == NONE; }
  /// Returns true if the copy fills pages for the next step.
  bool is_ahead(const TransferRecord& t) const { return residencies[t.residency].ahead(); }
  std::string_view name(const BindingRecord& b) const { return {strings.data() + b.name_offset, b.name_bytes}; }
};

/// Bytes of a value without gaps.
inline uint64_t dense_bytes(const ViewRecord& v) { return uint64_t(v.dims[0]) * v.dims[1] * v.dims[2] * v.dims[3] * dtype_bytes(v.dtype); }

}  // namespace spillway
