// Groups mappings by buffer and by residency, and checks that they agree.
// Worked example: residency 2 has pages 7 and 8; buffer 0 shows them as one mapping 7+2, buffer 3 as two, 8+1 and 7+1:
// both join to the run {7, 2}, so they agree.
#include "plan/page_map.hpp"

#include <tuple>

namespace spillway {
namespace {

Status join(std::vector<PageRun>& runs, const MappingRecord& m) {
  if (!runs.empty() && runs.back().page + runs.back().count > m.phys_page)
    return refuse("residency ", m.residency, " maps physical page ", m.phys_page, " twice in buffer ", m.buffer);
  if (!runs.empty() && runs.back().page + runs.back().count == m.phys_page)
    runs.back().count += m.count;
  else
    runs.push_back({m.phys_page, m.count});
  return {};
}

}  // namespace

Status PageMap::group_residencies(const Tape& tape) {
  std::vector<MappingRecord> by_page(tape.mappings);
  std::sort(by_page.begin(), by_page.end(), [](const MappingRecord& a, const MappingRecord& b) {
    return std::tie(a.residency, a.buffer, a.phys_page) < std::tie(b.residency, b.buffer, b.phys_page);
  });
  runs_.resize(tape.residencies.size());
  for (size_t i = 0; i < by_page.size();) {
    const uint32_t residency = by_page[i].residency, buffer = by_page[i].buffer;
    std::vector<PageRun> runs;
    for (; i < by_page.size() && by_page[i].residency == residency && by_page[i].buffer == buffer; i++)
      if (Status s = join(runs, by_page[i]); !s.ok()) return s;
    if (runs_[residency].empty())
      runs_[residency] = std::move(runs);
    else if (runs_[residency] != runs)
      return refuse("residency ", residency, " maps other pages in buffer ", buffer, " than in its other buffers");
  }
  for (size_t r = 0; r < runs_.size(); r++) {
    uint64_t pages = 0;
    for (const PageRun& run : runs_[r]) pages += run.count;
    if (pages == 0 || pages != tape.residencies[r].pages)
      return refuse("residency ", r, ": the record says ", tape.residencies[r].pages, " pages, its mappings have ", pages);
  }
  return {};
}

Result<PageMap> PageMap::of(Tape& tape) {
  auto& mappings = tape.mappings;
  std::sort(mappings.begin(), mappings.end(),
            [](const MappingRecord& a, const MappingRecord& b) { return std::tie(a.buffer, a.va_page) < std::tie(b.buffer, b.va_page); });
  for (size_t i = 1; i < mappings.size(); i++)
    if (mappings[i].buffer == mappings[i - 1].buffer && uint64_t(mappings[i - 1].va_page) + mappings[i - 1].count > mappings[i].va_page)
      return refuse("buffer ", mappings[i].buffer, ": virtual page ", mappings[i].va_page, " is mapped twice");
  PageMap map;
  map.first_.resize(tape.buffers.size() + 1);
  for (const MappingRecord& m : mappings) map.first_[m.buffer + 1]++;
  for (size_t b = 0; b < tape.buffers.size(); b++) map.first_[b + 1] += map.first_[b];
  if (Status s = map.group_residencies(tape); !s.ok()) return s;
  return map;
}

}  // namespace spillway
