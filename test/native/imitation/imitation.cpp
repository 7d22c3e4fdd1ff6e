// A device plugin that needs no GPU: asynchronous lanes, events, graphs and 2 MiB pages, imitated on the host, so that all
// that the runtime does with the cuda plugin is tested without one. Its addresses are not the host's (an access of the host
// ends the program), its step scalars live on the device, and any call can be made to fail, by a function or from outside.
#include "test/native/imitation/lanes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "core/owned_call.hpp"
#include "ops/collective.hpp"
#include "plan/tape.hpp"
#include "runtime/host_pool.hpp"
#include "runtime/memory.hpp"
#include "test/native/imitation/kernels.hpp"

namespace spillway::imitation {
namespace {

/// Added to an address it makes one that no program may touch.
constexpr uintptr_t AWAY = uintptr_t(1) << 62;

/// The call of the process that fails; 0: none.
int64_t failure_asked() {
  const char* const nth = std::getenv("SPILLWAY_IMITATION_FAILS");
  return nth ? std::atoll(nth) : 0;
}

std::atomic<int64_t> calls_to_failure{failure_asked()};
std::atomic<uint64_t> gone_together{0};

/// The way of calls that ends the process, as an engine with a fault ends a GPU's context; -1: none.
const int64_t faulty_way = [] {
  const char* const way = std::getenv("SPILLWAY_IMITATION_FAULTY_WAY");
  return way ? int64_t(std::atoll(way)) : -1;
}();

Status possibly_failed() { return calls_to_failure > 0 && --calls_to_failure == 0 ? failed(Code::device, "imitated failure") : Status{}; }

struct Context {
  explicit Context(const OpenOptions& options) : lanes(options.events) {}
  std::optional<HostPool> pool;
  uint64_t va_bytes = 0;
  std::vector<AddressRange> pinned;
  StepContext step;  // the device's
  Communicator* others = nullptr;
  Lanes lanes;  // last: its threads use the others

  bool is_away(const void* p) const { return reinterpret_cast<uintptr_t>(p) & AWAY; }
  bool is_pinned(const void* p) const {
    return std::any_of(pinned.begin(), pinned.end(), [&](const AddressRange& r) { return p >= r.data() && p < r.data() + r.bytes(); });
  }
};

Context* of(DeviceContext* c) { return reinterpret_cast<Context*>(c); }

void* here(const void* p) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) & ~AWAY); }

Code facts(DeviceFacts* into, Words*) {
  *into = {};
  std::snprintf(into->device, sizeof into->device, "imitation");
  into->total_bytes = into->free_bytes = available_memory();
  into->processors = 132;
  into->capability = 90;
  into->clock_khz = 1980000;
  into->memory_clock_khz = 3201000;
  into->bus_bits = 6144;
  return Code::ok;
}

Code open(const OpenOptions* options, DeviceContext** into, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  *into = reinterpret_cast<DeviceContext*>(new Context(*options));
  return Code::ok;
}

void close(DeviceContext* c) { delete of(c); }

Code map(DeviceContext* c, const PoolLayout* layout, std::byte** base, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  Result<HostPool> pool = HostPool::open(*layout);
  if (!pool.ok()) return report(words, pool.status());
  of(c)->pool.emplace(std::move(pool).value());
  *base = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(of(c)->pool->base()) | AWAY);
  return Code::ok;
}

uint64_t pool_bytes(DeviceContext* c) { return of(c)->pool ? of(c)->pool->file_bytes() : 0; }

Code pin(DeviceContext* c, uint64_t bytes, std::byte** at, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  AddressRange range = AddressRange::map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (!range) return report(words, failed(Code::out_of_memory, "no memory for ", bytes, " bytes"));
  *at = range.data();
  of(c)->pinned.push_back(std::move(range));
  return Code::ok;
}

/// As a driver would count it: nothing but the pool.
Code memory(DeviceContext* c, DeviceMemory* into, Words*) {
  *into = {0, pool_bytes(c), 0, true};
  return Code::ok;
}

/// A library's ways differ in nothing but their scratch and how long they take: the second and the loose one are the quickest.
struct LibraryWay {
  const char* name;
  bool repeats;
  uint64_t more_scratch;
  std::chrono::microseconds pause;
};
constexpr LibraryWay WAYS[] = {{"first", true, 0, std::chrono::microseconds(400)},
                               {"second", true, 4096, std::chrono::microseconds(100)},
                               {"third", true, 64, std::chrono::microseconds(800)},
                               {"loose", false, 128, std::chrono::microseconds(0)}};
constexpr LibraryWay ONLY{"own", true, 0, std::chrono::microseconds(0)};

uint32_t ways_of(uint32_t kind) { return is_library(kind) ? uint32_t(std::size(WAYS)) : 1; }
const LibraryWay& way_of(const KernelCall& call) { return is_library(call.kind) ? WAYS[call.way] : ONLY; }

struct Prepared {
  OwnedCall call;
  std::shared_ptr<PreparedKernel> kernel;
};

Prepared* of(DeviceCall* c) { return reinterpret_cast<Prepared*>(c); }

Code ways(DeviceContext*, const KernelCall* call, uint32_t most, Way* into, uint32_t* n, Words* words) {
  const Result<std::vector<Way>> own = kernel(call->kind)->ways(*call, 1);
  if (!own.ok()) return report(words, own.status());
  *n = std::min(most, ways_of(call->kind));
  KernelCall one = *call;
  for (one.way = 0; one.way < *n; one.way++) {
    const LibraryWay& way = way_of(one);
    into[one.way] = {one.way, way.repeats, own.value()[0].workspace_bytes + way.more_scratch, {}};
    std::snprintf(into[one.way].name, sizeof into[one.way].name, "%s", way.name);
  }
  return Code::ok;
}

Code prepare(DeviceContext* c, const KernelCall* call, DeviceCall** into, uint64_t* workspace_bytes, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  if (call->way >= ways_of(call->kind)) return report(words, refuse("the device has no such way to run it"));
  KernelCall first = *call;
  first.way = 0;
  Result<std::unique_ptr<PreparedKernel>> made = kernel(call->kind)->prepare(first);
  if (!made.ok()) return report(words, made.status());
  auto prepared = std::make_unique<Prepared>(Prepared{OwnedCall(*call), std::move(made).value()});
  prepared->call.call.step = &of(c)->step;
  *workspace_bytes = uint64_t(prepared->kernel->workspace_bytes()) + way_of(*call).more_scratch;
  *into = reinterpret_cast<DeviceCall*>(prepared.release());
  return Code::ok;
}

void release(DeviceContext*, DeviceCall* call) { delete of(call); }

/// The call where its operands are for the host.
std::shared_ptr<OwnedCall> placed(const Addressed& addressed) {
  auto owned = std::make_shared<OwnedCall>(of(addressed.call)->call);
  owned->place(addressed.at);
  for (View& v : owned->views) v.data = here(v.data);
  owned->call.workspace = here(owned->call.workspace);
  return owned;
}

Code run(DeviceContext* c, const Addressed* addressed, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  const Lane lane = addressed->beside && of(c)->others ? Lane::ranks : Lane::compute;
  return report(words, of(c)->lanes.push(lane, [owned = placed(*addressed), kernel = of(addressed->call)->kernel] {
    if (int64_t(owned->call.way) == faulty_way) std::abort();
    if (const auto pause = way_of(owned->call).pause; pause.count() > 0) std::this_thread::sleep_for(pause);
    try {
      kernel->run(owned->call);
    } catch (const std::exception& e) {
      return failed(Code::device, e.what());
    }
    return Status{};
  }));
}

Code run_together(DeviceContext* c, const Addressed* calls, uint32_t n, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  gone_together += n;
  std::vector<std::shared_ptr<OwnedCall>> owned;
  for (uint32_t i = 0; i < n; i++) owned.push_back(placed(calls[i]));
  return report(words, of(c)->lanes.push(Lane::compute, [owned = std::move(owned)] {
    std::vector<KernelCall> here;
    for (const auto& o : owned) here.push_back(o->call);
    imitation::run_together(here.data(), uint32_t(here.size()));
    return Status{};
  }));
}

Code begin_step(DeviceContext* c, const StepContext* step, Words* words) {
  if (of(c)->lanes.capturing(Lane::compute)) return report(words, refuse("a step begins outside of captures"));
  of(c)->others = step->communicator;
  return report(words, of(c)->lanes.push(Lane::compute, [c = of(c), step = *step] {
    c->step = step;
    return Status{};
  }));
}

Code copy(DeviceContext* c, Lane lane, void* to, const void* from, uint64_t bytes, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  const Context& context = *of(c);
  Lanes& lanes = of(c)->lanes;
  const auto move = [to = here(to), from = here(from), bytes] {
    std::memcpy(to, from, bytes);
    return Status{};
  };
  const bool reached = (context.is_away(to) || context.is_pinned(to)) && (context.is_away(from) || context.is_pinned(from));
  if (reached) return report(words, lanes.push(lane, move));
  if (lanes.capturing(lane)) return report(words, refuse("a copy of memory that is not pinned cannot be captured"));
  if (const Status s = lanes.finish(lane); !s.ok()) return report(words, s);
  return report(words, move());
}

Code record(DeviceContext* c, Lane lane, uint32_t event, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  return report(words, of(c)->lanes.record(lane, event));
}

Code wait(DeviceContext* c, Lane lane, uint32_t event, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  return report(words, of(c)->lanes.wait(lane, event));
}

Code finish(DeviceContext* c, Lane lane, Words* words) {
  const Status imitated = possibly_failed();
  const Status s = of(c)->lanes.finish(lane);
  return report(words, imitated.ok() ? s : imitated);
}

Code stamp(DeviceContext* c, Lane lane, uint32_t number, Words* words) { return report(words, of(c)->lanes.stamp(lane, number)); }
double seconds_between(DeviceContext* c, uint32_t from, uint32_t to) { return of(c)->lanes.seconds_between(from, to); }
Code begin_capture(DeviceContext* c, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  return report(words, of(c)->lanes.begin_capture());
}

Code end_capture(DeviceContext* c, uint32_t* graph, Words* words) {
  const Status imitated = possibly_failed();
  const Result<uint32_t> kept = of(c)->lanes.end_capture();
  if (!imitated.ok() || !kept.ok()) return report(words, imitated.ok() ? kept.status() : imitated);
  *graph = kept.value();
  return Code::ok;
}

Code launch(DeviceContext* c, uint32_t graph, Words* words) {
  if (const Status s = possibly_failed(); !s.ok()) return report(words, s);
  return report(words, of(c)->lanes.launch(graph));
}

constexpr Device DEVICE{.version = DEVICE_TABLE_VERSION,
                        .bytes = sizeof(Device),
                        .name = "imitation",
                        .float_type = DType::f32,
                        .precisions = precision_bit(Precision::fp32) | precision_bit(Precision::tf32) | precision_bit(Precision::bf16) |
                                      precision_bit(Precision::fp16),
                        .asynchronous = true,
                        .facts = facts,
                        .has_kernel = [](uint32_t wire) { return kernel(wire) != nullptr; },
                        .forget = nullptr,
                        .set_threads = nullptr,
                        .bind_threads = nullptr,
                        .open = open,
                        .close = close,
                        .map = map,
                        .pool_bytes = pool_bytes,
                        .memory = memory,
                        .pin = pin,
                        .ways = ways,
                        .prepare = prepare,
                        .release = release,
                        .run = run,
                        .run_together = run_together,
                        .most_together = most_together,
                        .begin_step = begin_step,
                        .copy = copy,
                        .record = record,
                        .wait = wait,
                        .finish = finish,
                        .stamp = stamp,
                        .seconds_between = seconds_between,
                        .begin_capture = begin_capture,
                        .end_capture = end_capture,
                        .launch = launch,
                        .carrier = nullptr,
                        .leave_ranks =
                            [](DeviceContext* c) {
                              if (of(c)->others) of(c)->others->engine->interrupt(of(c)->others);
                            }};

}  // namespace

}  // namespace spillway::imitation

extern "C" __attribute__((visibility("default"))) const spillway::Device* spillway_device_table(uint32_t version) {
  return version == spillway::DEVICE_TABLE_VERSION ? &spillway::imitation::DEVICE : nullptr;
}

/// Calls that went together with others so far.
extern "C" __attribute__((visibility("default"))) uint64_t spillway_imitation_together() { return spillway::imitation::gone_together; }

/// Returns true if the call to fail is still to come.
extern "C" __attribute__((visibility("default"))) bool spillway_imitation_fails_yet() { return spillway::imitation::calls_to_failure > 0; }

/// The nth call from now on fails; 0: none.
extern "C" __attribute__((visibility("default"))) void spillway_imitation_fail(int64_t nth) { spillway::imitation::calls_to_failure = nth; }
