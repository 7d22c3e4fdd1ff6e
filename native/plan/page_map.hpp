// The physical pages, with their residency, behind the bytes of a buffer. In: a tape whose buffers,
// mappings and residencies are in range. Out: lookups in O(log mappings). Invariant: a residency
// has the same physical pages in each buffer that shows it, each once.
#pragma once
#include <algorithm>

#include "core/result.hpp"
#include "plan/axes.hpp"
#include "plan/tape.hpp"

namespace spillway {

struct PageRun {
  uint64_t page, count;
  bool operator==(const PageRun&) const = default;
};

/// A piece of a buffer's bytes inside one mapping: physical bytes [lo, hi) of a residency.
struct PhysSpan {
  uint64_t lo, hi;
  uint32_t residency;
};

class PageMap {
 public:
  /// Sorts the tape's mappings by buffer and virtual page, and says so when they contradict each other.
  static Result<PageMap> of(Tape& tape);

  /// The physical pages of a residency, in order, adjacent ones joined.
  const std::vector<PageRun>& runs(uint32_t residency) const { return runs_[residency]; }

  /// Calls visit(PhysSpan) for bytes [lo, hi) of a buffer in order, while it returns true.
  /// False when a visit returned false or a byte has no page behind it: `unmapped` then tells which of the two.
  template <class Visit>
  bool walk(const Tape& tape, uint32_t buffer, uint64_t lo, uint64_t hi, bool& unmapped, Visit visit) const;

 private:
  Status group_residencies(const Tape& tape);

  std::vector<size_t> first_;  // of each buffer's mappings; one more at the end
  std::vector<std::vector<PageRun>> runs_;
};

template <class Visit>
bool PageMap::walk(const Tape& tape, uint32_t buffer, uint64_t lo, uint64_t hi, bool& unmapped, Visit visit) const {
  unmapped = false;
  const auto begin = tape.mappings.begin() + ptrdiff_t(first_[buffer]), end = tape.mappings.begin() + ptrdiff_t(first_[buffer + 1]);
  auto m = std::upper_bound(begin, end, lo / PAGE_BYTES, [](uint64_t page, const MappingRecord& r) { return page < r.va_page; });
  if (m != begin) --m;
  while (lo < hi) {
    if (m == end || lo / PAGE_BYTES < m->va_page || lo / PAGE_BYTES >= uint64_t(m->va_page) + m->count) {
      unmapped = true;
      return false;
    }
    const uint64_t stop = std::min(hi, (uint64_t(m->va_page) + m->count) * PAGE_BYTES);
    const uint64_t phys = lo - m->va_page * PAGE_BYTES + m->phys_page * PAGE_BYTES;
    if (!visit(PhysSpan{phys, phys + (stop - lo), m->residency})) return false;
    lo = stop;
    ++m;
  }
  return true;
}

/// Calls visit(lo, hi) with byte ranges of the view's buffer that together touch exactly the pages that the view touches
/// (gaps smaller than a page are joined), while it returns true.
template <class Visit>
bool for_each_block(const ViewRecord& v, Visit visit) {
  const auto [axes, n] = sorted_axes(v);
  const uint64_t element = dtype_bytes(v.dtype);
  uint64_t block = element;
  size_t joined = 0;
  while (joined < n && axes[joined].stride * element < block + PAGE_BYTES) {
    block += (axes[joined].dim - 1) * axes[joined].stride * element;
    joined++;
  }
  uint64_t index[4] = {0, 0, 0, 0};
  while (true) {
    uint64_t lo = v.offset;
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): a view has at most four axes
    for (size_t i = joined; i < n; i++) lo += index[i] * axes[i].stride * element;
    if (!visit(lo, lo + block)) return false;
    size_t i = joined;
    while (i < n && ++index[i] == axes[i].dim) index[i++] = 0;
    if (i == n) return true;
  }
}

}  // namespace spillway
