// Filling the pages of pinned memory by threads, and registering it. In: bytes. Out: memory that the lanes of the GPU reach (pinned.hpp).
#include "cuda/pinned.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <thread>

#include "cuda/libraries.hpp"

namespace spillway::cuda {
namespace {

constexpr uint64_t PAGE = 4096, SHARE = uint64_t(64) << 20;

/// Finds and clears the pages of a range: by the system where it can, otherwise by writing to each.
void fill(std::byte* at, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (uint64_t i = 0; i < bytes; i += PAGE) reinterpret_cast<volatile std::byte*>(at)[i] = std::byte(0);
}

/// Threads take shares of the range, each as many bytes as pay for a thread.
void fill_together(std::byte* at, uint64_t bytes) {
  const uint64_t most = std::max(1u, std::thread::hardware_concurrency());
  const uint64_t threads = std::clamp<uint64_t>(bytes / SHARE, 1, most);
  const uint64_t each = (bytes / threads + PAGE - 1) / PAGE * PAGE;
  std::vector<std::thread> others;
  for (uint64_t from = each; from < bytes; from += each) others.emplace_back([=] { fill(at + from, std::min(each, bytes - from)); });
  fill(at, std::min(each, bytes));
  for (std::thread& t : others) t.join();
}

AddressRange filled_range(uint64_t bytes) {
  AddressRange range = AddressRange::map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (!range) return range;
  ::madvise(range.data(), bytes, MADV_HUGEPAGE);
  fill_together(range.data(), bytes);
  return range;
}

}  // namespace

Pinned::~Pinned() {
  for (const AddressRange& range : registered_) cudaHostUnregister(range.data());
  for (void* at : allocated_) cudaFreeHost(at);
}

Result<std::byte*> Pinned::allocate(uint64_t bytes) {
  if (AddressRange range = filled_range(bytes); range) {
    std::byte* const at = range.data();
    if (cudaHostRegister(at, bytes, cudaHostRegisterPortable) == cudaSuccess) {
      registered_.push_back(std::move(range));
      return at;
    }
    cudaGetLastError();
  }
  void* at = nullptr;
  if (Status s = checked(cudaHostAlloc(&at, bytes, cudaHostAllocPortable), "cudaHostAlloc"); !s.ok())
    return within(s, "cannot allocate pinned memory of ", bytes, " bytes: ");
  allocated_.push_back(at);
  return static_cast<std::byte*>(at);
}

}  // namespace spillway::cuda
