// The driver's virtual memory calls, with the real ones' rules for sizes, alignment, wholeness and access.
#include "test/native/host_cuda/memory.hpp"

#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "test/native/host_cuda/rules.hpp"

namespace spillway::host_cuda {
namespace {

constexpr uint64_t CONTEXT_BYTES = uint64_t(64) << 20;
/// Allocations of the runtime take whole blocks, as a multiple of every host's page. Smaller blocks need fewer NaNs.
constexpr uint64_t BLOCK_BYTES = uint64_t(64) << 10;

struct Physical {
  uint64_t offset, bytes;
  int holders;
  bool released;
};
struct Mapping {
  uint64_t bytes;
  uint64_t handle;
  bool accessible;
};
struct Range {
  uint64_t number, bytes;
  int in_use = 0;
  bool allocated;
  std::map<uint64_t, Mapping> mappings;
};

struct Memory {
  int file = ::memfd_create("host cuda", 0);
  int key = ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
  uint64_t file_bytes = 0, created = 0, next = 1;
  std::map<uint64_t, Physical> physical;  // by handle
  std::map<uint64_t, Range> ranges;       // by address
  std::map<uint64_t, uint64_t> pinned;
  std::multimap<uint64_t, uint64_t> holes;  // of the file, by size
};

Memory& memory() {
  static Memory& m = *new Memory;
  return m;
}

uint64_t word(const void* p) { return reinterpret_cast<uint64_t>(p); }
void* address(uint64_t at) { return reinterpret_cast<void*>(at); }

template <class M>
auto holding(M& m, uint64_t at) {
  auto it = m.upper_bound(at);
  return it == m.begin() ? m.end() : std::prev(it);
}

Range* range_of(uint64_t at) {
  const auto it = holding(memory().ranges, at);
  return it != memory().ranges.end() && at < it->first + it->second.bytes ? &it->second : nullptr;
}

/// Bytes of NaNs, in place of the file's contents.
bool spoil(uint64_t offset, uint64_t bytes) {
  static const std::vector<char> ones(GRANULARITY, char(0xff));
  for (uint64_t done = 0; done < bytes; done += GRANULARITY)
    if (::pwrite(memory().file, ones.data(), std::min(GRANULARITY, bytes - done), off_t(offset + done)) < 0) return false;
  return true;
}

uint64_t place_for(uint64_t bytes) {
  Memory& m = memory();
  if (const auto hole = m.holes.find(bytes); hole != m.holes.end()) {
    const uint64_t offset = hole->second;
    m.holes.erase(hole);
    return offset;
  }
  const uint64_t offset = m.file_bytes;
  m.file_bytes += bytes;
  if (::ftruncate(m.file, off_t(m.file_bytes)) != 0) std::abort();
  return offset;
}

void drop(uint64_t handle) {
  Memory& m = memory();
  Physical& p = m.physical.at(handle);
  if (!p.released || p.holders > 0) return;
  m.created -= p.bytes;
  m.holes.emplace(p.bytes, p.offset);
  m.physical.erase(handle);
}

bool open_pages(uint64_t at, uint64_t bytes) {
  const int key = memory().key;
  return (key >= 0 ? ::pkey_mprotect(address(at), bytes, PROT_READ | PROT_WRITE, key)
                   : ::mprotect(address(at), bytes, PROT_READ | PROT_WRITE)) == 0;
}

bool accessible(const Range& r, uint64_t at, uint64_t bytes) {
  for (uint64_t p = at; p < at + bytes;) {
    const auto it = holding(r.mappings, p);
    if (it == r.mappings.end() || p >= it->first + it->second.bytes || !it->second.accessible) return false;
    p = it->first + it->second.bytes;
  }
  return true;
}

bool whole(uint64_t n) { return n > 0 && n % GRANULARITY == 0; }

bool of_device(const CUmemAllocationProp* p) {
  return p && p->type == CU_MEM_ALLOCATION_TYPE_PINNED && p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && p->location.id == 0;
}

}  // namespace

Inside::Inside() {
  if (memory().key >= 0) ::pkey_set(memory().key, 0);
}
Inside::~Inside() {
  if (memory().key >= 0) ::pkey_set(memory().key, PKEY_DISABLE_ACCESS);
}

Kind kind_of(const void* p, uint64_t bytes) {
  const uint64_t at = word(p);
  if (Range* const r = range_of(at)) return accessible(*r, at, bytes) ? Kind::device : Kind::mixed;
  const auto it = holding(memory().pinned, at);
  if (it != memory().pinned.end() && at < it->first + it->second) return at + bytes <= it->first + it->second ? Kind::pinned : Kind::mixed;
  return Kind::pageable;
}

std::vector<uint64_t> ranges_in(const void* bytes, size_t n) {
  std::vector<uint64_t> found;
  for (size_t i = 0; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t)) {
    uint64_t at;
    std::memcpy(&at, static_cast<const char*>(bytes) + i, sizeof at);
    const Range* const r = range_of(at);
    if (r && std::find(found.begin(), found.end(), r->number) == found.end()) found.push_back(r->number);
  }
  return found;
}

void use(const std::vector<uint64_t>& numbers, int by) {
  for (auto& [at, r] : memory().ranges)
    if (std::find(numbers.begin(), numbers.end(), r.number) != numbers.end()) r.in_use += by;
}

uint64_t total_bytes() {
  static const uint64_t bytes =
      std::getenv("SPILLWAY_HOST_CUDA_BYTES") ? std::strtoull(std::getenv("SPILLWAY_HOST_CUDA_BYTES"), nullptr, 10) : uint64_t(6) << 30;
  return bytes;
}
uint64_t taken_bytes() { return CONTEXT_BYTES + memory().created; }

void* allocate_device(uint64_t bytes) {
  Memory& m = memory();
  const uint64_t pages = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
  if (taken_bytes() + pages > total_bytes()) return nullptr;
  const uint64_t offset = place_for(pages);
  void* const at = ::mmap(nullptr, pages, PROT_NONE, MAP_SHARED, m.file, off_t(offset));
  if (at == MAP_FAILED || !spoil(offset, pages) || !open_pages(word(at), pages)) return nullptr;
  m.created += pages;
  const uint64_t handle = m.next++;
  m.physical[handle] = {offset, pages, 1, true};
  m.ranges[word(at)] = {m.next++, pages, 0, true, {{word(at), {pages, handle, true}}}};
  return at;
}

bool free_device(void* p) {
  Memory& m = memory();
  const auto it = m.ranges.find(word(p));
  if (it == m.ranges.end() || !it->second.allocated) return false;
  const Mapping mapping = it->second.mappings.begin()->second;
  ::munmap(p, mapping.bytes);
  m.ranges.erase(it);
  m.physical.at(mapping.handle).holders--;
  drop(mapping.handle);
  return true;
}

void* allocate_pinned(uint64_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  memory().pinned[word(at)] = bytes;
  return at;
}

bool free_pinned(void* p) {
  const auto it = memory().pinned.find(word(p));
  if (it == memory().pinned.end()) return false;
  ::munmap(p, it->second);
  memory().pinned.erase(it);
  return true;
}

bool register_pinned(void* p, uint64_t bytes) {
  return kind_of(p, bytes) == Kind::pageable && memory().pinned.emplace(word(p), bytes).second;
}

bool unregister_pinned(void* p) { return memory().pinned.erase(word(p)) == 1; }

uint64_t live_memory() {
  Memory& m = memory();
  uint64_t n = m.physical.size() + m.ranges.size() + m.pinned.size();
  for (const auto& [at, r] : m.ranges) n += r.mappings.size();
  return n;
}

}  // namespace spillway::host_cuda

// ---------------------------------------------------------------- the driver

using namespace spillway::host_cuda;

#define ENTER(name, code)                                    \
  const std::lock_guard<std::recursive_mutex> lock(world()); \
  if (fails(name)) return code;

extern "C" {

CUresult cuGetErrorString(CUresult code, const char** words) {
  *words = code == CUDA_ERROR_OUT_OF_MEMORY   ? "out of memory"
           : code == CUDA_ERROR_INVALID_VALUE ? "invalid argument"
           : code == CUDA_ERROR_UNKNOWN       ? "imitated failure"
                                              : "not initialized";
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* prop, CUmemAllocationGranularity_flags) {
  ENTER("cuMemGetAllocationGranularity", CUDA_ERROR_UNKNOWN)
  if (!of_device(prop)) return CUDA_ERROR_INVALID_VALUE;
  *bytes = GRANULARITY;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop, unsigned long long flags) {
  ENTER("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY)
  Memory& m = memory();
  if (!of_device(prop) || flags != 0 || !whole(bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (spillway::host_cuda::taken_bytes() + bytes > total_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t offset = place_for(bytes);
  if (!spoil(offset, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  m.created += bytes;
  *handle = m.next++;
  m.physical[*handle] = {offset, bytes, 0, false};
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER("cuMemRelease", CUDA_ERROR_UNKNOWN)
  const auto it = memory().physical.find(handle);
  if (it == memory().physical.end() || it->second.released) broken("a handle is released once", "cuMemRelease");
  it->second.released = true;
  drop(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* at, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags) {
  ENTER("cuMemAddressReserve", CUDA_ERROR_OUT_OF_MEMORY)
  if (!whole(bytes) || (alignment & (alignment - 1)) != 0 || flags != 0 || wish != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t unit = std::max<uint64_t>(alignment, GRANULARITY);
  void* const found = ::mmap(nullptr, bytes + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t start = (word(found) + unit - 1) / unit * unit, end = start + bytes, last = word(found) + bytes + unit;
  if (start > word(found)) ::munmap(found, start - word(found));
  if (last > end) ::munmap(address(end), last - end);
  memory().ranges[start] = {memory().next++, bytes, 0, false, {}};
  *at = start;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  ENTER("cuMemAddressFree", CUDA_ERROR_UNKNOWN)
  const auto it = memory().ranges.find(at);
  if (it == memory().ranges.end() || it->second.allocated || it->second.bytes != bytes)
    broken("a range is given back as it was reserved", "cuMemAddressFree");
  if (!it->second.mappings.empty()) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(address(at), bytes);
  memory().ranges.erase(it);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  ENTER("cuMemMap", CUDA_ERROR_UNKNOWN)
  Memory& m = memory();
  const auto physical = m.physical.find(handle);
  if (physical == m.physical.end() || physical->second.released) broken("what is mapped is there", "cuMemMap");
  Range* const r = range_of(at);
  if (!r || offset != 0 || flags != 0 || at % GRANULARITY != 0 || bytes != physical->second.bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto before = holding(r->mappings, at + bytes - 1);
  if (range_of(at + bytes - 1) != r || (before != r->mappings.end() && before->first + before->second.bytes > at))
    return CUDA_ERROR_INVALID_VALUE;
  if (::mmap(address(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, m.file, off_t(physical->second.offset)) == MAP_FAILED)
    return CUDA_ERROR_UNKNOWN;
  physical->second.holders++;
  r->mappings[at] = {bytes, handle, false};
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  ENTER("cuMemUnmap", CUDA_ERROR_UNKNOWN)
  Range* const r = range_of(at);
  if (!r || r->allocated) broken("what is unmapped is mapped", "cuMemUnmap");
  if (r->in_use > 0) broken("no memory is unmapped while a stream may still touch it", "cuMemUnmap");
  for (uint64_t p = at; p < at + bytes;) {
    const auto it = r->mappings.find(p);
    if (it == r->mappings.end() || p + it->second.bytes > at + bytes) broken("whole mappings are unmapped", "cuMemUnmap");
    const Mapping mapping = it->second;
    ::mmap(address(p), mapping.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    r->mappings.erase(it);
    memory().physical.at(mapping.handle).holders--;
    drop(mapping.handle);
    p += mapping.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  ENTER("cuMemSetAccess", CUDA_ERROR_UNKNOWN)
  Range* const r = range_of(at);
  if (!r || count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!whole(bytes) || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  for (uint64_t p = at; p < at + bytes;) {
    const auto it = r->mappings.find(p);
    if (it == r->mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    if (!open_pages(p, it->second.bytes)) return CUDA_ERROR_UNKNOWN;
    it->second.accessible = true;
    p += it->second.bytes;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
