// The device's memory: physical memory in one memory file, ranges of addresses, mappings that show one in the other, pinned host memory.
// Out: the contents of addresses. Invariant: unwritten memory holds NaNs; if the processor has keys for pages, only jobs of streams can
// touch the device's (Inside), and no thread can touch an address without access.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway::host_cuda {

constexpr uint64_t GRANULARITY = uint64_t(2) << 20;

/// While one lives, the calling thread may touch the device's memory.
class Inside {
 public:
  Inside();
  ~Inside();
};

enum class Kind { device, pinned, pageable, mixed };
/// For bytes [at, at + bytes): `device` only if all of it may be read and written, `mixed` if it is neither wholly.
Kind kind_of(const void* at, uint64_t bytes);

/// The ranges of the device that words of these bytes point into, by number.
std::vector<uint64_t> ranges_in(const void* bytes, size_t n);
/// For a job that is enqueued, and for one that has run.
void use(const std::vector<uint64_t>& ranges, int by);

/// Null when there is none left.
void* allocate_device(uint64_t bytes);
void* allocate_pinned(uint64_t bytes);
/// False when there is nothing of that kind there.
bool free_device(void* at);
bool free_pinned(void* at);
/// Memory of the caller; false if it is registered already.
bool register_pinned(void* at, uint64_t bytes);
bool unregister_pinned(void* at);

uint64_t total_bytes();
uint64_t taken_bytes();

/// The live objects, in all: physical pieces, mappings, ranges, allocations.
uint64_t live_memory();

}  // namespace spillway::host_cuda
