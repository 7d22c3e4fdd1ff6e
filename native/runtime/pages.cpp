// Opens the memory file and maps every buffer once; adjacent mappings that continue each other become one call.
// Worked example: virtual pages 0..3 on physical 5,6,7 and 2: two mmap calls, 0..2 -> 5..7 and 3 -> 2.
#include "runtime/pages.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "runtime/memory.hpp"

namespace spillway {
namespace {

struct Run { uint64_t va, phys, count; };  // in pages; va from the start of the reservation

std::vector<Run> joined_runs(const Tape& tape, const std::vector<uint64_t>& starts) {
  std::vector<Run> runs;
  for (const MappingRecord& m : tape.mappings) {
    const uint64_t va = starts[m.buffer] / PAGE_BYTES + m.va_page;
    if (!runs.empty() && runs.back().va + runs.back().count == va && runs.back().phys + runs.back().count == m.phys_page)
      runs.back().count += m.count;
    else runs.push_back({va, m.phys_page, m.count});
  }
  return runs;
}

/// How many mappings this process may still make.
uint64_t mappings_left() {
  uint64_t limit = 0, used = 0;
  if (!(std::ifstream("/proc/sys/vm/max_map_count") >> limit)) return ~uint64_t(0);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) used++;
  return limit > used ? limit - used : 0;
}

/// Threads, libraries and JavaScript want some mappings too.
constexpr uint64_t SPARE_MAPPINGS = 1024;

/// Runs, and the holes between them.
uint64_t mappings_of(const std::vector<Run>& runs) {
  uint64_t n = runs.size() + 1;
  for (size_t i = 1; i < runs.size(); i++) n += runs[i - 1].va + runs[i - 1].count != runs[i].va;
  return n;
}

Status check_mapping_limit(uint64_t wanted) {
  const uint64_t left = mappings_left();
  if (wanted + SPARE_MAPPINGS <= left) return {};
  return refuse("the plan needs ", wanted, " memory mappings and the system leaves ", left > SPARE_MAPPINGS ? left - SPARE_MAPPINGS : 0,
                "; raise it with: sysctl vm.max_map_count=", 2 * wanted + 65530);
}

}  // namespace

Status Pages::map_all(const Tape& tape) {
  const std::vector<Run> runs = joined_runs(tape, starts_);
  if (Status s = check_mapping_limit(mappings_of(runs)); !s.ok()) return s;
  for (const Run& r : runs) {
    void* at = base_ + r.va * PAGE_BYTES;
    if (::mmap(at, r.count * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.fd(), off_t(r.phys * PAGE_BYTES)) == MAP_FAILED)
      return refuse("cannot map ", r.count, " pages: ", system_error());
    ::madvise(at, r.count * PAGE_BYTES, MADV_HUGEPAGE);  // where the system allows huge pages for shared memory
  }
  return {};
}

Result<std::unique_ptr<Pages>> Pages::open(const Tape& tape) {
  if (const uint64_t left = available_memory(); tape.pool_pages * PAGE_BYTES > left)
    return refuse("the plan takes ", tape.pool_pages * PAGE_BYTES, " bytes of memory, of which ", left, " are left");
  auto pages = std::make_unique<Pages>();
  pages->file_ = File(::memfd_create("spillway-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!pages->file_) return refuse("cannot create the memory file: ", system_error());
  const int fd = pages->file_.fd();
  if (::ftruncate(fd, off_t(tape.pool_pages * PAGE_BYTES)) != 0 || ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return refuse("cannot size the memory file to ", tape.pool_pages, " pages: ", system_error());
  uint64_t bytes = 0;
  for (const BufferRecord& b : tape.buffers) {
    pages->starts_.push_back(bytes);
    bytes += b.pages * PAGE_BYTES;
  }
  pages->range_ = AddressRange::map(bytes + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (!pages->range_) return refuse("cannot reserve ", bytes, " bytes of addresses: ", system_error());
  const auto start = reinterpret_cast<uintptr_t>(pages->range_.data());
  pages->base_ = pages->range_.data() + (PAGE_BYTES - start % PAGE_BYTES) % PAGE_BYTES;
  if (Status s = pages->map_all(tape); !s.ok()) return s;
  for (const ResidencyRecord& r : tape.residencies)
    if (r.for_ever()) pages->acquire(r.pages);
  return pages;
}

uint64_t Pages::file_bytes() const {
  struct stat s {};
  return ::fstat(file_.fd(), &s) == 0 ? uint64_t(s.st_blocks) * 512 : 0;
}

}  // namespace spillway
