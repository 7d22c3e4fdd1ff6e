// Memory of the host devices.
#include "runtime/host_device.hpp"

#include "runtime/cores.hpp"
#include "runtime/memory.hpp"

namespace spillway::host {

bool map(DeviceContext* c, const PoolLayout* layout, std::byte** base, Words* words) {
  Result<HostPool> pool = HostPool::open(*layout);
  if (!pool.ok()) return tell(words, pool.status());
  of(c)->pool.emplace(std::move(pool).value());
  *base = of(c)->pool->base();
  return true;
}

bool pin(DeviceContext* c, uint64_t bytes, std::byte** at, Words* words) {
  AddressRange range = AddressRange::map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (!range) return tell(words, refuse("no memory for ", bytes, " bytes: ", system_error()));
  *at = range.data();
  of(c)->pinned.push_back(std::move(range));
  return true;
}

bool facts(DeviceFacts* into, Words*) {
  *into = {};
  into->processors = uint32_t(available_cores());
  into->total_bytes = into->free_bytes = available_memory();
  return true;
}

}  // namespace spillway::host
