// Memory and calls of the host devices. A prepared call holds its own views; running it only says where they lie.
#include "runtime/host_device.hpp"

#include <algorithm>
#include <exception>

#include "core/owned_call.hpp"
#include "gen/ops.h"
#include "runtime/cores.hpp"
#include "runtime/memory.hpp"

namespace spillway::host {

Code map(DeviceContext* c, const PoolLayout* layout, std::byte** base, Words* words) {
  Result<HostPool> pool = HostPool::open(*layout);
  if (!pool.ok()) return report(words, pool.status());
  of(c)->pool.emplace(std::move(pool).value());
  *base = of(c)->pool->base();
  return Code::ok;
}

Code pin(DeviceContext* c, uint64_t bytes, std::byte** at, Words* words) {
  AddressRange range = AddressRange::map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (!range) return report(words, failed(Code::out_of_memory, "cannot allocate ", bytes, " bytes: ", system_error()));
  *at = range.data();
  of(c)->pinned.push_back(std::move(range));
  return Code::ok;
}

Code facts(DeviceFacts* into, Words*) {
  *into = {};
  into->processors = uint32_t(available_cores());
  into->total_bytes = into->free_bytes = available_memory();
  return Code::ok;
}

namespace {

struct HostCall {
  OwnedCall call;
  std::unique_ptr<PreparedKernel> kernel;
};

HostCall* of(DeviceCall* c) { return reinterpret_cast<HostCall*>(c); }

Status no_kernel(const KernelCall& call) {
  const OpInfo* op = op_info(call.kind);
  return refuse("the device has no kernel for ", op ? op->kind : "an unknown operator");
}

}  // namespace

Code ways(KernelTable kernel, const KernelCall& call, uint32_t most, Way* into, uint32_t* n, Words* words) {
  const KernelEntry* entry = kernel(call.kind);
  const Result<std::vector<Way>> found = entry ? entry->ways(call, most) : no_kernel(call);
  if (!found.ok()) return report(words, found.status());
  *n = uint32_t(std::min<size_t>(found.value().size(), most));
  std::copy_n(found.value().begin(), *n, into);
  return Code::ok;
}

Code prepare(KernelTable kernel, DeviceContext* c, const KernelCall& call, DeviceCall** into, uint64_t* workspace_bytes, Words* words) {
  const KernelEntry* entry = kernel(call.kind);
  Result<std::unique_ptr<PreparedKernel>> made = entry ? entry->prepare(call) : no_kernel(call);
  if (!made.ok()) return report(words, made.status());
  auto prepared = std::make_unique<HostCall>(HostCall{OwnedCall(call), std::move(made).value()});
  prepared->call.call.step = &host::of(c)->step;
  try {
    prepared->kernel->compile();
  } catch (const std::exception& e) {
    return report(words, failed(Code::device, e.what()));
  }
  *workspace_bytes = uint64_t(prepared->kernel->workspace_bytes());
  *into = reinterpret_cast<DeviceCall*>(prepared.release());
  return Code::ok;
}

void release(DeviceContext*, DeviceCall* call) { delete of(call); }

Code run(DeviceContext*, const Addressed* addressed, Words* words) {
  HostCall& c = *of(addressed->call);
  c.call.place(addressed->at);
  try {
    c.kernel->run(c.call.call);
    return Code::ok;
  } catch (const std::exception& e) {
    return report(words, failed(Code::device, op_info(c.call.call.kind)->kind, ": ", e.what()));
  }
}

}  // namespace spillway::host
