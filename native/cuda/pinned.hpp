// Pinned memory of a session. In: bytes. Out: memory that the GPU's lanes reach. The system's work, finding and clearing the pages, is done
// by several threads, because one thread takes seconds for tens of GiB. Then one registration pins the whole range: a copy across two
// fails. Invariant: if the range cannot be registered, as in some containers, the driver allocates it alone.
#pragma once
#include <vector>

#include "core/result.hpp"
#include "runtime/handles.hpp"

namespace spillway::cuda {

class Pinned {
 public:
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned();
  Result<std::byte*> allocate(uint64_t bytes);

 private:
  std::vector<AddressRange> registered_;
  std::vector<void*> allocated_;
};

}  // namespace spillway::cuda
