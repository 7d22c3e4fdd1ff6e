// The lower tier, for bytes that do not fit the device: RAM, or a spill file without a name. In: parts of memory and their
// places. Out: the same bytes later. Invariant: its whole size is allocated at opening; offsets and addresses are multiples
// of 4096, lengths need not be; the error of a part names the file, the cause and the cure.
#pragma once
#include <memory>

#include "runtime/tier_requests.hpp"

namespace spillway {

/// Bytes in memory, and where they are in the tier.
struct Part {
  uint64_t offset = 0;
  std::byte* at = nullptr;
  uint64_t bytes = 0;
};

/// A part that has ended.
struct Moved {
  uint64_t tag = 0;
  Status status;
};

/// One direction of a tier: several parts may be under way at once, and end in any order. Used by one thread at a time.
class Channel {
 public:
  virtual ~Channel() = default;
  /// The largest part that is worth moving by itself.
  virtual uint64_t part_bytes() const = 0;
  /// How many more may be started now.
  virtual uint32_t room() const = 0;
  /// Only where there is room. The memory belongs to the channel until the part has ended.
  virtual void start(uint64_t tag, const Part& part) = 0;
  /// Waits until one of those under way has ended.
  virtual Moved finish() = 0;
};

class Tier {
 public:
  virtual ~Tier() = default;
  virtual Channel& out() = 0;
  virtual Channel& in() = 0;
  /// Bytes on disk.
  virtual uint64_t disk_bytes() const { return 0; }

  /// Any number of bytes, done when it returns; after a failure nothing is under way either.
  Status write(uint64_t offset, const std::byte* from, uint64_t bytes);
  Status read(uint64_t offset, std::byte* into, uint64_t bytes);
};

Result<std::unique_ptr<Tier>> open_ram_tier(uint64_t bytes);
/// The first bytes in memory, the others in such a file; no part lies in both.
Result<std::unique_ptr<Tier>> open_split_tier(uint64_t memory_bytes, const std::string& directory, uint64_t bytes,
                                              OpenRequests open = open_requests);
/// A file in this directory, unlinked at once: a killed process leaves nothing behind.
Result<std::unique_ptr<Tier>> open_spill_file(const std::string& directory, uint64_t bytes, OpenRequests open = open_requests);

}  // namespace spillway
