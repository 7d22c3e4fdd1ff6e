// Requests to one file, several in flight: the only system interface of a spill file. It uses io_uring if the kernel has
// it, otherwise threads. In: numbered requests. Out: their results, in the order of their ends. Invariant: one thread
// uses it; after closing, no request touches memory.
#pragma once
#include <memory>

#include "core/result.hpp"

namespace spillway {

struct Request {
  bool write = false;
  uint64_t offset = 0;
  std::byte* at = nullptr;
  uint64_t bytes = 0;
};

struct Completion {
  uint32_t slot = 0;
  /// Bytes moved, or an errno made negative.
  int64_t result = 0;
};

class Requests {
 public:
  virtual ~Requests() = default;
  /// Uses a slot (of `depth`) without a request in flight.
  virtual void submit(uint32_t slot, const Request& request) = 0;
  /// Only while something is under way.
  virtual Completion wait() = 0;
};

/// Opens a file for a number of slots. Tests inject failing ones here.
using OpenRequests = Result<std::unique_ptr<Requests>> (*)(int fd, uint32_t depth);

Result<std::unique_ptr<Requests>> open_uring(int fd, uint32_t depth);
Result<std::unique_ptr<Requests>> open_request_threads(int fd, uint32_t depth);
/// The first of the two that this system has.
Result<std::unique_ptr<Requests>> open_requests(int fd, uint32_t depth);

/// On the calling thread a write beyond the limit on file sizes is an error then, not a signal that ends the process.
void refuse_file_signals();

}  // namespace spillway
