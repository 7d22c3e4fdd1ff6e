// The lower tier: where bytes go that the device has no room for. RAM, or a spill file without a name.
// Invariant: its whole size is set aside when it opens; offsets and addresses are multiples of 4096, lengths need not be;
// a failed call names its cause.
#pragma once
#include <sys/types.h>

#include <memory>

#include "plan/result.hpp"

namespace spillway {

class Tier {
 public:
  virtual ~Tier() = default;
  virtual Status write(uint64_t offset, const std::byte* from, uint64_t bytes) = 0;
  virtual Status read(uint64_t offset, std::byte* into, uint64_t bytes) = 0;
  /// Bytes on disk.
  virtual uint64_t disk_bytes() const { return 0; }
};

/// The two calls that move bytes to and from the spill file: tests put failing ones here.
struct FileCalls {
  ssize_t (*pwrite)(int, const void*, size_t, off_t);
  ssize_t (*pread)(int, void*, size_t, off_t);
};
extern const FileCalls SYSTEM_FILE_CALLS;

Result<std::unique_ptr<Tier>> open_ram_tier(uint64_t bytes);
/// A file in this directory, unlinked at once: a killed process leaves nothing behind.
Result<std::unique_ptr<Tier>> open_spill_file(const std::string& directory, uint64_t bytes, const FileCalls& calls = SYSTEM_FILE_CALLS);

}  // namespace spillway
