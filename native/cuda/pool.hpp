// Device memory by the virtual memory calls: one range of addresses, and physical memory of exactly the pool, shown where the
// mappings say. In: a layout in 2 MiB pages. Invariant: everything is created and mapped when it opens; a page that two
// addresses show is one handle mapped twice; all is given back at the end.
#pragma once
#include <vector>

#include "cuda/libraries.hpp"
#include "runtime/device.hpp"

namespace spillway::cuda {

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  Status open(int device, const PoolLayout& layout);
  std::byte* base() const { return reinterpret_cast<std::byte*>(base_); }
  uint64_t bytes() const { return created_bytes_; }

 private:
  /// Physical pages [first, first + count) that every mapping shows together or not at all: one handle.
  struct Piece {
    uint64_t first, count;
    CUmemGenericAllocationHandle handle;
  };
  struct Mapped {
    CUdeviceptr at;
    size_t bytes;
  };

  Status create(int device, uint64_t pages);
  Status map(const PageMapping& m, const CUmemAccessDesc& access);

  std::vector<Piece> pieces_;
  std::vector<Mapped> mapped_;
  CUdeviceptr base_ = 0;
  size_t reserved_bytes_ = 0;
  uint64_t created_bytes_ = 0;
};

}  // namespace spillway::cuda
