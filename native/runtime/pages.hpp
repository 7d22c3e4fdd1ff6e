// The memory of a tape on an open device: the address of each buffer, and the count of pages that a step holds.
// In: a checked tape. Invariant: everything is mapped when it opens; nothing is mapped or allocated during a step (paper 1
// maps at run time).
#pragma once
#include <memory>

#include "core/result.hpp"
#include "plan/tape.hpp"
#include "runtime/open_device.hpp"

namespace spillway {

class Pages {
 public:
  static Result<std::unique_ptr<Pages>> open(const Tape& tape, OpenDevice& device);

  /// An address of the device's: the host may look there only where nothing is asynchronous.
  std::byte* at(uint32_t buffer, uint64_t offset) const { return base_ + starts_[buffer] + offset; }

  void acquire(uint64_t pages) {
    held_ += pages;
    peak_ = std::max(peak_, held_);
  }
  void release(uint64_t pages) { held_ -= pages; }
  uint64_t held() const { return held_; }
  /// The most bytes that were held at once, counted as the instructions ran.
  uint64_t peak_bytes() const { return peak_ * PAGE_BYTES; }

 private:
  std::byte* base_ = nullptr;
  std::vector<uint64_t> starts_;  // of each buffer, from base_
  uint64_t held_ = 0, peak_ = 0;
};

}  // namespace spillway
