// Device memory on the host: one memory file of exactly the pool, shown at the addresses that the mappings say.
// Invariant: everything is mapped when the pool opens; nothing is mapped or allocated afterwards.
#pragma once
#include <memory>
#include <span>

#include "core/result.hpp"
#include "runtime/device.hpp"
#include "runtime/handles.hpp"

namespace spillway {

class HostPool {
 public:
  static Result<HostPool> open(const PoolLayout& layout);

  std::byte* base() const { return base_; }
  /// The blocks that the memory file has by now, as the system counts them.
  uint64_t file_bytes() const;

 private:
  Status map_all(std::span<const PageMapping> mappings);

  File file_;
  AddressRange range_;
  std::byte* base_ = nullptr;  // page-aligned start inside the range
};

}  // namespace spillway
