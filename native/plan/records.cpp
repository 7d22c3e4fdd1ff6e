// Each record by itself: ranges, alignment, indices. In: records as loaded. Out: the first contradiction, by record.
// Invariant: sums and products are checked for overflow before they are compared.
#include <cmath>
#include <set>

#include "plan/checks.hpp"
#include "plan/forms.hpp"

namespace spillway {
namespace {

/// Calls check(record) on each; the first complaint gets the section's name and the record's number in front.
template <class Record, class Check>
Status each(const char* name, const std::vector<Record>& records, Check check) {
  for (size_t i = 0; i < records.size(); i++)
    if (Status s = check(records[i]); !s.ok()) return within(s, name, " ", i, ": ");
  return {};
}

Status check_buffers(const Tape& tape) {
  uint64_t total = 0;
  return each("buffer", tape.buffers, [&](const BufferRecord& b) -> Status {
    if (b.pages == 0 || b.pages > MAX_VIRTUAL_PAGES - total)
      return refuse(b.pages, " pages; allowed: at least 1 per buffer, and in all buffers together at most ", MAX_VIRTUAL_PAGES);
    total += b.pages;
    if (b.bytes == 0 || b.bytes > b.pages * PAGE_BYTES) return refuse(b.bytes, " bytes in ", b.pages, " pages");
    return {};
  });
}

Status check_mappings(const Tape& tape) {
  return each("mapping", tape.mappings, [&](const MappingRecord& m) -> Status {
    if (m.count == 0) return refuse("no pages");
    if (uint64_t(m.va_page) + m.count > tape.buffers[m.buffer].pages)
      return refuse("virtual pages from ", m.va_page, ", ", m.count, " of them, exceed the end of buffer ", m.buffer);
    if (uint64_t(m.phys_page) + m.count > tape.peak_pages)
      return refuse("physical pages from ", m.phys_page, ", ", m.count, " of them, exceed the end of the pool");
    return {};
  });
}

Status check_residencies(const Tape& tape) {
  return each("residency", tape.residencies, [&](const ResidencyRecord& r) -> Status {
    return r.pages > 0 && r.pages <= tape.peak_pages ? Status{} : refuse(r.pages, " pages of a pool of ", tape.peak_pages);
  });
}

/// Bytes from the view's first element to the end of its last, or 0 when that passes every bound.
uint64_t span_bytes(const ViewRecord& v) {
  uint64_t last = 0, step = 0;
  for (int d = 0; d < 4; d++)
    if (__builtin_mul_overflow(uint64_t(v.dims[d] - 1), v.strides[d], &step) || __builtin_add_overflow(last, step, &last)) return 0;
  if (last >= MAX_ELEMENTS) return 0;
  return (last + 1) * dtype_bytes(v.dtype);
}

/// Elements must not share an address, whichever order the dimensions are stored in.
bool strides_overlap(const ViewRecord& v) {
  const auto [axes, n] = sorted_axes(v);
  uint64_t span = 1;
  for (size_t i = 0; i < n; i++) {
    if (axes[i].stride < span) return true;
    span += (axes[i].dim - 1) * axes[i].stride;
  }
  return false;
}

Status check_box(const ViewRecord& v) {
  uint64_t elements = 1;
  for (int d = 0; d < 4; d++) {
    if (v.dims[d] == 0) return refuse("dimension ", d, " is empty");
    if (uint32_t(d) >= v.rank && v.dims[d] != 1) return refuse("dimension ", d, " is ", v.dims[d], " in a view of rank ", v.rank);
    if (uint64_t(v.origin[d]) + v.dims[d] > v.extent[d])
      return refuse("the box exceeds the whole value in dimension ", d, ": ", v.origin[d], " + ", v.dims[d], " > ", v.extent[d]);
    if (__builtin_mul_overflow(elements, uint64_t(v.extent[d]), &elements) || elements > MAX_ELEMENTS)
      return refuse("a value of more than ", MAX_ELEMENTS, " elements");
  }
  return {};
}

Status check_view(const Tape& tape, const ViewRecord& v) {
  if (v.rank < 1 || v.rank > 4) return refuse("rank ", v.rank);
  if (Status s = check_box(v); !s.ok()) return s;
  if (v.buffer == NONE) return {};
  if (v.offset % dtype_bytes(v.dtype) != 0) return refuse("offset ", v.offset, " is not a multiple of the element size");
  const uint64_t span = span_bytes(v);
  const uint64_t bytes = tape.buffers[v.buffer].bytes;
  if (span == 0 || v.offset > bytes || span > bytes - v.offset)
    return refuse("it exceeds the end of buffer ", v.buffer, " (", bytes, " bytes)");
  return strides_overlap(v) ? refuse("two of its elements share an address") : Status{};
}

Status check_far_side(const Tape& tape, const TransferRecord& t) {
  if (t.with_tier()) {
    if (t.far_offset % SECTOR_BYTES != 0) return refuse("tier offset ", t.far_offset, " is not a multiple of ", SECTOR_BYTES);
    if (t.far_offset > tape.tier_bytes || t.bytes > tape.tier_bytes - t.far_offset) return refuse("it exceeds the end of the lower tier");
    return {};
  }
  if (t.binding == NONE) return refuse("it names no binding");
  const BindingRecord& b = tape.bindings[t.binding];
  if (t.from_source() && !b.fed()) return refuse("binding ", t.binding, " is not an input");
  if (t.to_sink() && b.role != BindingRole::output) return refuse("binding ", t.binding, " is not an output");
  const uint64_t whole = dense_bytes(tape.views[b.view]), element = dtype_bytes(b.dtype);
  if (t.far_offset > whole || t.bytes > whole - t.far_offset) return refuse("it exceeds the end of binding ", t.binding, "'s value");
  if (t.far_offset % element != 0 || t.bytes % element != 0) return refuse("it starts or ends inside an element");
  return {};
}

Status check_transfer(const Tape& tape, const TransferRecord& t) {
  if (t.offset % SECTOR_BYTES != 0) return refuse("offset ", t.offset, " is not a multiple of ", SECTOR_BYTES);
  const uint64_t bytes = tape.buffers[t.buffer].pages * PAGE_BYTES;
  if (t.bytes == 0 || t.offset > bytes || t.bytes > bytes - t.offset) return refuse("it exceeds the end of buffer ", t.buffer);
  return check_far_side(tape, t);
}

Status check_binding(const Tape& tape, const BindingRecord& b) {
  if (b.name_bytes == 0) return refuse("it has no name");
  const ViewRecord& v = tape.views[b.view];
  if (b.dtype != v.dtype) return refuse("element type ", name_of(b.dtype), ", but ", name_of(v.dtype), " in its view");
  if (b.passing() && v.buffer != NONE) return refuse("the view of an input or output must be a template without a buffer");
  if (!b.passing() && !b.persistent() && v.buffer == NONE) return refuse("its view has no buffer");
  if (!std::isfinite(b.a)) return refuse("its start value is not finite");
  if (!tape.at_home(b) && b.home != 0) return refuse("only a value that is in the lower tier between steps may have a home there");
  if (b.passing()) return v.offset == 0 ? Status{} : refuse("the template of an input or output has no offset");
  if (b.dtype != tape.float_type) return refuse("element type ", name_of(b.dtype), " is not the tape's float type");
  if (span_bytes(v) != dense_bytes(v)) return refuse("its view has gaps");
  if (tape.at_home(b)) {
    if (b.home % SECTOR_BYTES != 0) return refuse("its home, tier offset ", b.home, ", is not a multiple of ", SECTOR_BYTES);
    if (v.offset > b.home) return refuse("its offset in its buffer, ", v.offset, ", exceeds its home, tier offset ", b.home);
    if (b.home > tape.tier_bytes || dense_bytes(v) > tape.tier_bytes - b.home) return refuse("its home exceeds the end of the lower tier");
  }
  if (b.role == BindingRole::loss && dense_bytes(v) != dtype_bytes(v.dtype)) return refuse("a loss must be one number");
  return {};
}

Status check_names(const Tape& tape) {
  std::set<std::string_view> seen;
  return each("binding", tape.bindings, [&](const BindingRecord& b) -> Status {
    return seen.insert(tape.name(b)).second ? Status{} : refuse("two bindings are named '", tape.name(b), "'");
  });
}

/// Checks every record of every section, before any index is used.
Status check_forms(const Tape& tape) {
  if (tape.events > tape.instrs.size()) return refuse("header: ", tape.events, " events, but only ", tape.instrs.size(), " instructions");
  const Counts n = counts_of(tape, tape.events);
  Status status;
  Sections::each(tape, [&](const char*, const char* one, const auto& records) {
    if (status.ok()) status = each(one, records, [&](const auto& r) { return check_form(r, n); });
  });
  return status;
}

}  // namespace

Status check_records(const Tape& tape) {
  if (Status s = check_forms(tape); !s.ok()) return s;
  if (Status s = check_buffers(tape); !s.ok()) return s;
  if (Status s = check_mappings(tape); !s.ok()) return s;
  if (Status s = check_residencies(tape); !s.ok()) return s;
  if (Status s = each("view", tape.views, [&](const ViewRecord& v) { return check_view(tape, v); }); !s.ok()) return s;
  if (Status s = each("binding", tape.bindings, [&](const BindingRecord& b) { return check_binding(tape, b); }); !s.ok()) return s;
  if (Status s = check_names(tape); !s.ok()) return s;
  return each("transfer", tape.transfers, [&](const TransferRecord& t) { return check_transfer(tape, t); });
}

}  // namespace spillway
