// The device's memory: physical memory in one memory file, ranges of addresses, mappings that show one in the other, pinned
// host memory. Out: what lies where. Invariant: memory that nobody has written holds NaNs; where the processor has keys for
// pages, only jobs of streams can touch the device's (Inside), and an address without access can be touched by nobody.
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
/// Of bytes [at, at + bytes): `device` only if all of it may be read and written, `mixed` where it is neither wholly.
Kind kind_of(const void* at, uint64_t bytes);

/// The ranges of the device that words of these bytes point into, by number.
std::vector<uint64_t> ranges_in(const void* bytes, size_t n);
/// Of a job that is enqueued, and that has run.
void use(const std::vector<uint64_t>& ranges, int by);

/// Null when there is none left.
void* allocate_device(uint64_t bytes);
void* allocate_pinned(uint64_t bytes);
/// False when there is nothing of that kind there.
bool free_device(void* at);
bool free_pinned(void* at);

uint64_t total_bytes();
uint64_t taken_bytes();

/// What is there still, in all: physical pieces, mappings, ranges, allocations.
uint64_t live_memory();

}  // namespace spillway::host_cuda
