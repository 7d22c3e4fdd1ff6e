// The device memory of the CPU: one memory file of exactly the pool, shown at the addresses that the tape's mappings say.
// In: a checked tape. Out: the address of each buffer, and the count of pages that a step holds.
// Invariant: everything is mapped when the pool opens; nothing is mapped or allocated during a step (paper 1 maps at run time).
#pragma once
#include <memory>

#include "plan/result.hpp"
#include "plan/tape.hpp"
#include "runtime/handles.hpp"

namespace spillway {

class Pages {
 public:
  static Result<std::unique_ptr<Pages>> open(const Tape& tape);

  std::byte* at(uint32_t buffer, uint64_t offset) const { return base_ + starts_[buffer] + offset; }

  void acquire(uint64_t pages) { held_ += pages; peak_ = std::max(peak_, held_); }
  void release(uint64_t pages) { held_ -= pages; }
  uint64_t held() const { return held_; }
  /// The most bytes that were held at once, counted as the instructions ran.
  uint64_t peak_bytes() const { return peak_ * PAGE_BYTES; }
  /// The blocks that the memory file has by now, as the system counts them.
  uint64_t file_bytes() const;

 private:
  Status map_all(const Tape& tape);

  File file_;
  AddressRange range_;
  std::byte* base_ = nullptr;      // page-aligned start inside the range
  std::vector<uint64_t> starts_;   // of each buffer, from base_
  uint64_t held_ = 0, peak_ = 0;
};

}  // namespace spillway
