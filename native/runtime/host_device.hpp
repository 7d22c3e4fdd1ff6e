// The table of a device that computes where the runtime runs: its memory is a memory file, its copies are memcpy, and
// everything is done when it returns. In: a kernel table. Out: a Device, worked out at compile time.
#pragma once
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/host_pool.hpp"

namespace spillway {

struct HostContext {
  std::optional<HostPool> pool;
  std::vector<AddressRange> pinned;
  StepContext step;
};

/// Functions of a host device beside kernels; null if it has none.
struct HostExtras {
  void (*set_threads)(int) = nullptr;
  void (*bind_threads)(const int*, uint32_t, bool) = nullptr;
  void (*forget)() = nullptr;
};

/// The version of the library that kernels call.
using LibraryName = std::string (*)();

namespace host {

inline HostContext* of(DeviceContext* c) { return reinterpret_cast<HostContext*>(c); }

inline Code open(const OpenOptions*, DeviceContext** into, Words*) {
  *into = reinterpret_cast<DeviceContext*>(new HostContext());
  return Code::ok;
}
inline void close(DeviceContext* c) { delete of(c); }

Code map(DeviceContext* c, const PoolLayout* layout, std::byte** base, Words* words);
Code pin(DeviceContext* c, uint64_t bytes, std::byte** at, Words* words);
inline uint64_t pool_bytes(DeviceContext* c) { return of(c)->pool ? of(c)->pool->file_bytes() : 0; }
Code facts(DeviceFacts* into, Words* words);

inline Code begin_step(DeviceContext* c, const StepContext* step, Words*) {
  of(c)->step = *step;
  return Code::ok;
}
inline Code copy(DeviceContext*, Lane, void* to, const void* from, uint64_t bytes, Words*) {
  std::memcpy(to, from, bytes);
  return Code::ok;
}
inline Code at_event(DeviceContext*, Lane, uint32_t, Words*) { return Code::ok; }
inline Code finish(DeviceContext*, Lane, Words*) { return Code::ok; }

Code ways(KernelTable kernel, const KernelCall& call, uint32_t most, Way* into, uint32_t* n, Words* words);
Code prepare(KernelTable kernel, DeviceContext* c, const KernelCall& call, DeviceCall** into, uint64_t* workspace_bytes, Words* words);
void release(DeviceContext*, DeviceCall* call);
Code run(DeviceContext*, const Addressed* addressed, Words* words);

/// For devices whose kernels call no library.
inline std::string no_library() { return {}; }
template <LibraryName library>
Code facts_with(DeviceFacts* into, Words* words) {
  if (const Code code = facts(into, words); code != Code::ok) return code;
  std::snprintf(into->libraries, sizeof into->libraries, "%s", library().c_str());
  return Code::ok;
}

}  // namespace host

template <KernelTable kernel, LibraryName library = host::no_library>
constexpr Device host_device(const char* name, DType float_type, HostExtras extras) {
  return {.version = DEVICE_TABLE_VERSION,
          .bytes = sizeof(Device),
          .name = name,
          .float_type = float_type,
          .precisions = precision_bit(Precision::fp32) | precision_bit(Precision::bf16) | precision_bit(Precision::fp16),
          .asynchronous = false,
          .facts = host::facts_with<library>,
          .has_kernel = [](uint32_t wire) { return kernel(wire) != nullptr; },
          .forget = extras.forget,
          .set_threads = extras.set_threads,
          .bind_threads = extras.bind_threads,
          .open = host::open,
          .close = host::close,
          .map = host::map,
          .pool_bytes = host::pool_bytes,
          .memory = nullptr,
          .pin = host::pin,
          .ways = [](DeviceContext*, const KernelCall* call, uint32_t most, Way* into, uint32_t* n,
                     Words* w) { return host::ways(kernel, *call, most, into, n, w); },
          .prepare = [](DeviceContext* c, const KernelCall* call, DeviceCall** into, uint64_t* bytes,
                        Words* w) { return host::prepare(kernel, c, *call, into, bytes, w); },
          .release = host::release,
          .run = host::run,
          .run_together = nullptr,
          .most_together = nullptr,
          .begin_step = host::begin_step,
          .copy = host::copy,
          .record = host::at_event,
          .wait = host::at_event,
          .finish = host::finish,
          .stamp = nullptr,
          .seconds_between = nullptr,
          .begin_capture = nullptr,
          .end_capture = nullptr,
          .launch = nullptr,
          .carrier = nullptr,
          .leave_ranks = nullptr};
}

}  // namespace spillway
