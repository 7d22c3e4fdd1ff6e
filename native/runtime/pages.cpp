// Lays buffers out one after the other and has the device map them; mappings that continue each other become one.
// Worked example: virtual pages 0..3 on physical 5,6,7 and 2: two mappings, 0..2 -> 5..7 and 3 -> 2.
#include "runtime/pages.hpp"

#include <algorithm>

namespace spillway {
namespace {

std::vector<PageMapping> joined(const Tape& tape, const std::vector<uint64_t>& starts) {
  std::vector<PageMapping> runs;
  for (const MappingRecord& m : tape.mappings) {
    const uint64_t va = starts[m.buffer] / PAGE_BYTES + m.va_page;
    if (!runs.empty() && runs.back().va + runs.back().count == va && runs.back().phys + runs.back().count == m.phys_page)
      runs.back().count += m.count;
    else
      runs.push_back({va, m.phys_page, m.count});
  }
  return runs;
}

}  // namespace

Result<std::unique_ptr<Pages>> Pages::open(const Tape& tape, OpenDevice& device) {
  auto pages = std::make_unique<Pages>();
  uint64_t bytes = 0;
  for (const BufferRecord& b : tape.buffers) {
    pages->starts_.push_back(bytes);
    bytes += b.pages * PAGE_BYTES;
  }
  const std::vector<PageMapping> mappings = joined(tape, pages->starts_);
  const Result<std::byte*> base = device.map({tape.peak_pages, bytes / PAGE_BYTES, mappings.data(), mappings.size()});
  if (!base.ok()) return base.status();
  pages->base_ = base.value();
  for (const ResidencyRecord& r : tape.residencies)
    if (r.for_ever() || r.ahead()) pages->acquire(r.pages);
  return pages;
}

}  // namespace spillway
