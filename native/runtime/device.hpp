// The functions of a device for the runtime, as one table: pages, streams, events, copies, kernels, graphs. The devices of this
// build fill it in host_device.cpp; a plugin returns its own through one C function (SPILLWAY_DEVICE_ENTRY). Invariant: plain data
// and C calling only, so that a plugin may come from another compiler. A failing function returns a code, and leaves words. One
// thread uses a context, except for `copy`, `wait` and `finish` on the far lanes.
#pragma once
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "core/kernel.hpp"

namespace spillway {

constexpr uint32_t DEVICE_TABLE_VERSION = 7;
#define SPILLWAY_DEVICE_ENTRY "spillway_device_table"

/// The place for the reason of a failing function.
struct Words {
  char text[1024];
  Words() { text[0] = 0; }
};

/// Streams of a context. Copies run on `out` and `in` if the device reaches both ends, exchanges between ranks on `ranks`. The far lanes
/// belong to the threads that carry bytes between the device and memory beyond its reach (the disk).
enum class Lane : uint32_t { compute, out, in, ranks, far_out, far_in };
constexpr uint32_t LANES = 6;

/// Pages [va, va + count) of the range of addresses show pages [phys, …) of the pool. In pages.
struct PageMapping {
  uint64_t va, phys, count;
};

struct PoolLayout {
  uint64_t pool_pages = 0, va_pages = 0;
  const PageMapping* mappings = nullptr;
  uint64_t n_mappings = 0;
};

/// How a session computes. bf16, fp16: activations are stored so, as their views say; tf32: products of floats round their factors on the
/// way.
enum class Precision : uint32_t { fp32, tf32, bf16, fp16 };
constexpr uint32_t precision_bit(Precision p) { return uint32_t(1) << uint32_t(p); }

struct OpenOptions {
  int threads = 0;      // 0: all cores
  uint32_t events = 0;  // numbered from 0; each is recorded before it is waited for
  Precision precision = Precision::fp32;
  bool counts_memory = false;  // `memory` will be asked for
};

struct DeviceFacts {
  char device[128] = {}, driver[64] = {}, libraries[256] = {};
  uint64_t total_bytes = 0, free_bytes = 0;
  uint32_t processors = 0;
  /// The compute capability of a GPU (90 for 9.0), its clocks, the width of its memory's bus, and its address on the PCI bus.
  uint32_t capability = 0, clock_khz = 0, memory_clock_khz = 0, bus_bits = 0;
  char pci[32] = {};
};

/// The device memory of a context, as its driver counts: before the pool (contexts of the driver, handles of libraries),
/// by the pool, and since (kernels that are loaded late, graphs).
struct DeviceMemory {
  uint64_t context_bytes = 0, pool_bytes = 0, grown_bytes = 0;
  bool of_process = false;  // otherwise of all that use the device
};

struct DeviceContext;  // of one session
struct DeviceCall;     // prepared in a context

/// A prepared call and where its operands lie: inputs, outputs, then its scratch. `beside`: an exchange with other ranks that compute waits
/// for later.
struct Addressed {
  DeviceCall* call;
  void* const* at;
  bool beside;
};

struct Device {
  uint32_t version, bytes;  // DEVICE_TABLE_VERSION, sizeof(Device)
  const char* name;
  /// The computing type, and the precisions of the device (a processor may lack bf16).
  DType float_type;
  uint32_t precisions;
  /// Calls and copies return before they are done, and the host does not see the pages. Otherwise everything is done when it returns.
  bool asynchronous;

  Code (*facts)(DeviceFacts*, Words*);
  bool (*has_kernel)(uint32_t wire);
  /// Frees the memory of code that was compiled for released calls. May be null.
  void (*forget)();
  /// For the calling thread and those that its kernels use. May be null.
  void (*set_threads)(int);
  /// The same threads: each goes to a processor of its own, in order, or (`each` false) anywhere on these. May be null.
  void (*bind_threads)(const int* processors, uint32_t count, bool each);

  Code (*open)(const OpenOptions*, DeviceContext**, Words*);
  /// Waits for work in flight, then frees everything.
  void (*close)(DeviceContext*);

  /// Takes the pool and makes all mappings, once a context. Out: the first address.
  Code (*map)(DeviceContext*, const PoolLayout*, std::byte** base, Words*);
  /// The pool's memory from the system so far.
  uint64_t (*pool_bytes)(DeviceContext*);
  /// Null where the host's memory is the device's.
  Code (*memory)(DeviceContext*, DeviceMemory*, Words*);
  /// Host memory that copies reach at the link's full speed, exactly so large; given back with the context.
  Code (*pin)(DeviceContext*, uint64_t bytes, std::byte** at, Words*);

  /// The ways that plans may choose among, way 0 first, at most `most`; an error if the call is not legal. Views may have no data.
  Code (*ways)(DeviceContext*, const KernelCall*, uint32_t most, Way* into, uint32_t* n, Words*);
  /// Checks a call and works out all that follows from its shapes, attributes and way. Views may have no data.
  Code (*prepare)(DeviceContext*, const KernelCall*, DeviceCall** into, uint64_t* workspace_bytes, Words*);
  void (*release)(DeviceContext*, DeviceCall*);
  /// Runs on the compute lane, in the step of the last begin_step. Exchanges during compute run on the lane `ranks`, after a wait for
  /// their operands.
  Code (*run)(DeviceContext*, const Addressed*, Words*);
  /// Runs calls of one kind with the same attributes at once, up to a limit, if none touches a result of another. Null if
  /// there is nothing to gain. The first one's workspace serves them all.
  Code (*run_together)(DeviceContext*, const Addressed* calls, uint32_t n, Words*);
  uint32_t (*most_together)(uint32_t wire);
  /// Sets the step for the calls and graphs that follow; never inside a capture. All ranks of its communicator do so at once.
  Code (*begin_step)(DeviceContext*, const StepContext*, Words*);

  /// Either end may be the device's or pinned; pageable host memory only while the host waits for the copy anyway.
  Code (*copy)(DeviceContext*, Lane, void* to, const void* from, uint64_t bytes, Words*);
  Code (*record)(DeviceContext*, Lane, uint32_t event, Words*);
  Code (*wait)(DeviceContext*, Lane, uint32_t event, Words*);
  /// The host waits for all work of the lane, and gets its errors.
  Code (*finish)(DeviceContext*, Lane, Words*);

  /// The time when a lane gets here, under a number of the caller's; never inside a capture. Null where nothing is asynchronous.
  Code (*stamp)(DeviceContext*, Lane, uint32_t number, Words*);
  /// Between two stamps that have been reached.
  double (*seconds_between)(DeviceContext*, uint32_t from, uint32_t to);

  /// Between these two, the work of the compute lane and of the lanes that wait for it is not run but kept. The other
  /// lanes must have joined the compute lane again before the end. Null if there are no graphs.
  Code (*begin_capture)(DeviceContext*, Words*);
  Code (*end_capture)(DeviceContext*, uint32_t* graph, Words*);
  /// Runs the kept work on the compute lane.
  Code (*launch)(DeviceContext*, uint32_t graph, Words*);

  /// The library that carries bytes between the devices of ranks, for people ("NCCL 2.32.3"); fails in words if it is missing. Null if
  /// the communicator carries them.
  Code (*carrier)(char (*name)[64], Words*);
  /// The run has failed: nothing that the context was given waits for other ranks any more. Null where the communicator is told so.
  void (*leave_ranks)(DeviceContext*);
};

/// The function that a plugin exports under the name SPILLWAY_DEVICE_ENTRY: null for another version.
using DeviceEntry = const Device* (*)(uint32_t version);

/// A status as a table's function gives it.
inline Code report(Words* words, const Status& status) {
  if (!status.ok()) std::snprintf(words->text, sizeof words->text, "%s", status.message.c_str());
  return status.code;
}

}  // namespace spillway
