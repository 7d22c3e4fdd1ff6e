// Opens the memory file and maps every run of pages. If the system has no space for the number of mappings, it says so
// first.
#include "runtime/host_pool.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "gen/wire.h"
#include "runtime/memory.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace spillway {
namespace {

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
uint64_t mappings_of(std::span<const PageMapping> runs) {
  uint64_t n = runs.size() + 1;
  for (size_t i = 1; i < runs.size(); i++) n += runs[i - 1].va + runs[i - 1].count != runs[i].va;
  return n;
}

Status check_mapping_limit(uint64_t wanted) {
  const uint64_t left = mappings_left();
  if (wanted + SPARE_MAPPINGS <= left) return {};
  return failed(Code::out_of_memory, "the plan needs ", wanted, " memory mappings; the system allows ",
                left > SPARE_MAPPINGS ? left - SPARE_MAPPINGS : 0, "; raise the limit: sysctl vm.max_map_count=", 2 * wanted + 65530);
}

/// Backs the pages by huge ones if the system has them, because convolutions walk through values in long strides. On most
/// systems, shared memory gets no huge pages, even on request, but present pages can be collapsed.
void make_huge(std::byte* at, uint64_t pages) {
  ::madvise(at, pages * PAGE_BYTES, MADV_HUGEPAGE);
  for (uint64_t page = 0; page < pages; page++) *static_cast<volatile std::byte*>(at + page * PAGE_BYTES) = std::byte{0};
  ::madvise(at, pages * PAGE_BYTES, MADV_COLLAPSE);
}

}  // namespace

Status HostPool::map_all(std::span<const PageMapping> mappings) {
  if (Status s = check_mapping_limit(mappings_of(mappings)); !s.ok()) return s;
  for (const PageMapping& m : mappings) {
    void* at = base_ + m.va * PAGE_BYTES;
    if (::mmap(at, m.count * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.fd(), off_t(m.phys * PAGE_BYTES)) ==
        MAP_FAILED)
      return failed(Code::out_of_memory, "cannot map ", m.count, " pages: ", system_error());
    make_huge(static_cast<std::byte*>(at), m.count);
  }
  return {};
}

Result<HostPool> HostPool::open(const PoolLayout& layout) {
  if (const uint64_t left = available_memory(); layout.pool_pages * PAGE_BYTES > left)
    return failed(Code::out_of_memory, "the plan needs ", layout.pool_pages * PAGE_BYTES, " bytes of memory; ", left, " are free");
  HostPool pool;
  pool.file_ = File(::memfd_create("spillway-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!pool.file_) return failed(Code::out_of_memory, "cannot create the memory file: ", system_error());
  const int fd = pool.file_.fd();
  if (::ftruncate(fd, off_t(layout.pool_pages * PAGE_BYTES)) != 0 || ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return failed(Code::out_of_memory, "cannot size the memory file to ", layout.pool_pages, " pages: ", system_error());
  const uint64_t bytes = layout.va_pages * PAGE_BYTES;
  pool.range_ = AddressRange::map(bytes + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (!pool.range_) return failed(Code::out_of_memory, "cannot reserve ", bytes, " bytes of addresses: ", system_error());
  const auto start = reinterpret_cast<uintptr_t>(pool.range_.data());
  pool.base_ = pool.range_.data() + (PAGE_BYTES - start % PAGE_BYTES) % PAGE_BYTES;
  if (Status s = pool.map_all({layout.mappings, layout.n_mappings}); !s.ok()) return s;
  return pool;
}

uint64_t HostPool::file_bytes() const {
  struct stat s {};
  return ::fstat(file_.fd(), &s) == 0 ? uint64_t(s.st_blocks) * 512 : 0;
}

}  // namespace spillway
