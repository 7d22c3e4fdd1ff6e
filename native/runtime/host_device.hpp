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
};

/// What a host device has beside kernels; null where it has nothing of the kind.
struct HostExtras {
  void (*set_threads)(int) = nullptr;
  void (*bind_threads)(const int*, uint32_t, bool) = nullptr;
  void (*forget)() = nullptr;
};

/// The version of the library that kernels call.
using LibraryName = std::string (*)();

namespace host {

inline HostContext* of(DeviceContext* c) { return reinterpret_cast<HostContext*>(c); }

inline bool open(const OpenOptions*, DeviceContext** into, Words*) {
  *into = reinterpret_cast<DeviceContext*>(new HostContext());
  return true;
}
inline void close(DeviceContext* c) { delete of(c); }

bool map(DeviceContext* c, const PoolLayout* layout, std::byte** base, Words* words);
bool pin(DeviceContext* c, uint64_t bytes, std::byte** at, Words* words);
inline uint64_t pool_bytes(DeviceContext* c) { return of(c)->pool ? of(c)->pool->file_bytes() : 0; }
bool facts(DeviceFacts* into, Words* words);

inline bool begin_step(DeviceContext*, const StepContext*, Words*) { return true; }
inline bool copy(DeviceContext*, Lane, void* to, const void* from, uint64_t bytes, Words*) {
  std::memcpy(to, from, bytes);
  return true;
}
inline bool at_event(DeviceContext*, Lane, uint32_t, Words*) { return true; }
inline bool finish(DeviceContext*, Lane, Words*) { return true; }

template <KernelTable kernel>
int64_t workspace(DeviceContext*, const KernelCall* call) {
  const KernelEntry* entry = kernel(call->kind);
  return entry ? entry->workspace_bytes(*call) : -1;
}
/// Of devices whose kernels call none.
inline std::string no_library() { return {}; }
template <LibraryName library>
bool facts_with(DeviceFacts* into, Words* words) {
  if (!facts(into, words)) return false;
  std::snprintf(into->libraries, sizeof into->libraries, "%s", library().c_str());
  return true;
}
template <KernelTable kernel>
bool prepare(DeviceContext*, const KernelCall* call, Words* words) { return tell(words, kernel(call->kind)->prepare(*call)); }
template <KernelTable kernel>
bool run(DeviceContext*, const KernelCall* call, Words* words) { return tell(words, kernel(call->kind)->run(*call)); }

}  // namespace host

template <KernelTable kernel, LibraryName library = host::no_library>
constexpr Device host_device(const char* name, HostExtras extras) {
  return {.version = DEVICE_TABLE_VERSION, .bytes = sizeof(Device), .name = name, .asynchronous = false,
          .facts = host::facts_with<library>, .has_kernel = [](uint32_t wire) { return kernel(wire) != nullptr; },
          .forget = extras.forget, .set_threads = extras.set_threads, .bind_threads = extras.bind_threads,
          .open = host::open, .close = host::close,
          .map = host::map, .pool_bytes = host::pool_bytes, .memory = nullptr, .pin = host::pin,
          .workspace = host::workspace<kernel>, .prepare = host::prepare<kernel>, .run = host::run<kernel>,
          .run_together = nullptr, .most_together = nullptr, .begin_step = host::begin_step,
          .copy = host::copy, .record = host::at_event, .wait = host::at_event, .finish = host::finish,
          .stamp = nullptr, .seconds_between = nullptr, .begin_capture = nullptr, .end_capture = nullptr, .launch = nullptr};
}

}  // namespace spillway
