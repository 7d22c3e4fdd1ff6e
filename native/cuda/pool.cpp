// One handle for each piece of physical memory that is mapped together; each mapping is a row of whole pieces.
#include "cuda/pool.hpp"

#include <algorithm>

#include "cuda/pieces.hpp"
#include "gen/wire.h"

namespace spillway::cuda {
namespace {

CUmemAllocationProp on_device(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

}  // namespace

Status Pool::create(int device, uint64_t pages) {
  const CUmemAllocationProp prop = on_device(device);
  for (Piece& p : pieces_) {
    const Status s = checked(driver().value().cuMemCreate(&p.handle, p.count * PAGE_BYTES, &prop, 0), "cuMemCreate");
    if (!s.ok()) {
      p.handle = 0;
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      return failed(Code::out_of_memory, "the plan needs ", pages * PAGE_BYTES, " bytes of device memory; ", created_bytes_,
                    " were allocated and ", free, " are free (does another process use the GPU?): ", s.message);
    }
    created_bytes_ += p.count * PAGE_BYTES;
  }
  return {};
}

Status Pool::map(const PageMapping& m, const CUmemAccessDesc& access) {
  const Driver& d = driver().value();
  auto piece = std::lower_bound(pieces_.begin(), pieces_.end(), m.phys, [](const Piece& p, uint64_t page) { return p.first < page; });
  const CUdeviceptr start = base_ + m.va * PAGE_BYTES;
  CUdeviceptr at = start;
  for (; piece != pieces_.end() && piece->first < m.phys + m.count; ++piece) {
    const size_t bytes = piece->count * PAGE_BYTES;
    SPILLWAY_TRY(checked(d.cuMemMap(at, bytes, 0, piece->handle, 0), "cuMemMap"));
    mapped_.push_back({at, bytes});
    at += bytes;
  }
  return checked(d.cuMemSetAccess(start, m.count * PAGE_BYTES, &access, 1), "cuMemSetAccess");
}

Status Pool::open(int device, const PoolLayout& layout) {
  if (!driver().ok()) return driver().status();
  const Driver& d = driver().value();
  const CUmemAllocationProp prop = on_device(device);
  size_t granularity = 0;
  SPILLWAY_TRY(
      checked(d.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "cuMemGetAllocationGranularity"));
  if (granularity == 0 || PAGE_BYTES % granularity != 0)
    return failed(Code::device, "this GPU uses pages of ", granularity, " bytes; plans use pages of ", PAGE_BYTES);
  const std::vector<uint64_t> bounds = piece_bounds(layout);
  for (size_t i = 0; i + 1 < bounds.size(); i++) pieces_.push_back({bounds[i], bounds[i + 1] - bounds[i], 0});
  SPILLWAY_TRY(create(device, layout.pool_pages));
  if (layout.va_pages == 0) return {};
  reserved_bytes_ = layout.va_pages * PAGE_BYTES;
  SPILLWAY_TRY(checked(d.cuMemAddressReserve(&base_, reserved_bytes_, PAGE_BYTES, 0, 0), "cuMemAddressReserve"));
  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (uint64_t i = 0; i < layout.n_mappings; i++) SPILLWAY_TRY(map(layout.mappings[i], access));
  return {};
}

Pool::~Pool() {
  if (!driver().ok()) return;
  const Driver& d = driver().value();
  for (const Mapped& m : mapped_) d.cuMemUnmap(m.at, m.bytes);
  if (base_) d.cuMemAddressFree(base_, reserved_bytes_);
  for (const Piece& p : pieces_)
    if (p.handle) d.cuMemRelease(p.handle);
}

}  // namespace spillway::cuda
