// Two regions of memory larger than the caches, one that calls read and one that they write: each run of a call takes the
// next place in both, which the caches have long forgotten when its turn comes again.
// Worked example: conv2d of 3 MiB in, 2 MiB out, in regions of 96 MiB: thirty runs go once through the first.
#include "runtime/cold_measure.hpp"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <optional>

#include "gen/wire.h"
#include "runtime/clock.hpp"
#include "runtime/cores.hpp"
#include "runtime/queueing.hpp"
#include "runtime/random.hpp"

namespace spillway {
namespace {

constexpr uint64_t PLACE_ALIGN = 256;
constexpr uint64_t aligned(uint64_t bytes) { return (bytes + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN; }
constexpr uint64_t pages_of(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES; }

/// The kernel's number for the third level of caches that processor 0 shares; 0 if it has none.
uint64_t kernel_cache_bytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  uint64_t size = 0;
  char unit = 0;
  file >> size >> unit;
  return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : 0;
}

/// The size of the last level of caches, or more. The processor reports that of the whole package; the cores of a virtual machine have a
/// part of it.
uint64_t cache_bytes() {
  const uint64_t kernel = kernel_cache_bytes();
  const long processor = kernel ? 0 : ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::clamp<uint64_t>(std::max<uint64_t>(kernel, processor > 0 ? uint64_t(processor) : 0), uint64_t(32) << 20, uint64_t(256) << 20);
}

/// Normal numbers all over; every value of a block of a million differs, and the block repeats.
void fill_normal(std::byte* at, uint64_t bytes) {
  constexpr uint64_t BLOCK = 1 << 20;
  const uint64_t first = std::min(bytes, BLOCK * sizeof(float));
  fill_random(reinterpret_cast<float*>(at), 0, first / sizeof(float), Dist::normal, 1.0, {1, 0});
  for (uint64_t done = first; done < bytes; done = std::min(bytes, 2 * done)) std::memcpy(at + done, at, std::min(done, bytes - done));
}

/// A stretch of memory that is handed out from the front to the end, again and again.
struct Region {
  std::byte* base = nullptr;
  uint64_t bytes = 0, cursor = 0;
  std::byte* take(uint64_t n) {
    if (cursor + n > bytes) cursor = 0;
    std::byte* const at = base + cursor;
    cursor += aligned(n);
    return at;
  }
};

/// The bytes of one placement of a call in each region.
struct Needs {
  uint64_t read = 0, written = 0, integers = 0, workspace = 0;
};

class Bench {
 public:
  static Result<Bench> open(const Device& device, const Needs& needs) {
    Result<OpenDevice> opened = OpenDevice::open(device, {});
    if (!opened.ok()) return opened.status();
    Bench b(std::move(opened).value());
    const uint64_t share = cache_bytes();
    const uint64_t sizes[] = {std::max(share, needs.read) + share / 2, std::max(share, needs.written) + share / 2, needs.integers,
                              needs.workspace};
    uint64_t pages = 0;
    for (const uint64_t bytes : sizes) pages += pages_of(bytes);
    const PageMapping whole{0, 0, pages};
    const Result<std::byte*> base = b.context_.map({pages, pages, &whole, 1});
    if (!base.ok()) return base.status();
    std::byte* at = base.value();
    Region* const regions[] = {&b.read, &b.written, &b.integers, &b.workspace};
    for (size_t i = 0; i < 4; i++) {
      *regions[i] = {at, pages_of(sizes[i]) * PAGE_BYTES, 0};
      at += regions[i]->bytes;
    }
    fill_normal(b.read.base, b.read.bytes + b.written.bytes);
    std::fill_n(b.integers.base, b.integers.bytes + b.workspace.bytes, std::byte(0));
    return b;
  }
  bool holds(const Needs& n) const {
    return n.read <= read.bytes && n.written <= written.bytes && n.integers <= integers.bytes && n.workspace <= workspace.bytes;
  }
  OpenDevice& context() { return context_; }

  Region read, written, integers, workspace;

 private:
  explicit Bench(OpenDevice context) : context_(std::move(context)) {}
  OpenDevice context_;
};

std::mutex bench_mutex;
std::optional<Bench> bench;
const Device* bench_device = nullptr;

/// A call at one place after the other.
class Moving {
 public:
  Moving(const KernelCall& call, int in_place) : call_(call), in_place_(in_place), views_(call.ins, call.ins + call.n_ins) {
    views_.insert(views_.end(), call.outs, call.outs + call.n_outs);
  }
  Needs needs(uint64_t workspace) const {
    Needs n{0, 0, 0, workspace};
    for (size_t i = 0; i < views_.size(); i++) *region_of(i, n.read, n.written, n.integers) += aligned(span_bytes(views_[i]));
    return n;
  }
  /// The next place of every operand, and the workspace.
  void* const* next(Bench& b) {
    at_.clear();
    for (size_t i = 0; i < views_.size(); i++) at_.push_back(region_of(i, b.read, b.written, b.integers)->take(span_bytes(views_[i])));
    if (in_place_ >= 0) at_[call_.n_ins] = at_[size_t(in_place_)];
    at_.push_back(b.workspace.base);
    return at_.data();
  }

 private:
  template <class R>
  R* region_of(size_t i, R& read, R& written, R& integers) const {
    if (views_[i].dtype == DType::i32) return &integers;
    return i >= call_.n_ins || int(i) == in_place_ ? &written : &read;
  }
  const KernelCall call_;
  const int in_place_;
  std::vector<View> views_;
  std::vector<void*> at_;
};

/// Runs of a call: those that were left alone, and all.
struct Runs {
  std::vector<double> quiet, all;
  /// Returns true if the runs are enough for a stable time.
  bool settled(double spent) const {
    constexpr size_t LEAST = 3, MOST = 15;
    constexpr double ENOUGH_SECONDS = 0.015, PATIENCE_SECONDS = 0.3;
    if (spent > PATIENCE_SECONDS) return !all.empty();
    return quiet.size() >= MOST || (quiet.size() >= LEAST && spent > ENOUGH_SECONDS);
  }
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

Measured verdict(const Runs& runs) {
  constexpr size_t LEAST = 3;
  if (runs.quiet.size() >= LEAST) return {median(runs.quiet), true};
  // Other work of the machine only adds to a run.
  return {*std::min_element(runs.all.begin(), runs.all.end()), false};
}

/// The bench of this device, large enough for such a call.
Status make_room(const Device& device, const Needs& needs) {
  if (bench && bench_device == &device && bench->holds(needs)) return {};
  bench.reset();
  Result<Bench> opened = Bench::open(device, needs);
  if (!opened.ok()) return opened.status();
  bench.emplace(std::move(opened).value());
  bench_device = &device;
  return {};
}

/// The call, ready on a bench that is large enough for it.
Result<PreparedCall> ready(const Device& device, const Moving& moving, const KernelCall& call) {
  if (Status s = make_room(device, moving.needs(0)); !s.ok()) return s;
  Needs needs;
  {
    Result<PreparedCall> prepared = bench->context().prepare(call);
    if (!prepared.ok()) return prepared;
    needs = moving.needs(prepared.value().workspace_bytes());
    if (bench->holds(needs)) return prepared;
  }
  if (Status s = make_room(device, needs); !s.ok()) return s;
  return bench->context().prepare(call);
}

Result<Measured> measure_on_bench(Moving& moving, const PreparedCall& prepared, const KernelCall& call) {
  OpenDevice& context = bench->context();
  Status s = context.begin_step(*call.step);
  if (s.ok()) s = context.run(prepared.at(moving.next(*bench)));
  if (!s.ok()) return s;
  const Queueing queueing;
  Runs runs;
  const Clock::time_point start = Clock::now();
  for (double stood = queueing.seconds(); !runs.settled(seconds_since(start));) {
    const Addressed there = prepared.at(moving.next(*bench));
    const Clock::time_point began = Clock::now();
    if (s = context.run(there); !s.ok()) return s;
    const double seconds = seconds_since(began), now = queueing.seconds();
    runs.all.push_back(seconds);
    if (is_quiet(now - stood, seconds)) runs.quiet.push_back(seconds);
    stood = now;
  }
  return verdict(runs);
}

}  // namespace

Result<Measured> measure_call(const Device& device, const KernelCall& call, const SingleOptions& options) {
  if (device.asynchronous) return measure_repeated(device, call, options);
  const std::lock_guard lock(bench_mutex);
  const int threads = options.threads > 0 ? options.threads : default_threads();
  if (device.set_threads) device.set_threads(threads);
  const BoundThreads bound(device, threads);
  Moving moving(call, options.in_place);
  const Result<PreparedCall> prepared = ready(device, moving, call);
  return prepared.ok() ? measure_on_bench(moving, prepared.value(), call) : Result<Measured>(prepared.status());
}

void forget_measuring() {
  const std::lock_guard lock(bench_mutex);
  bench.reset();
}

}  // namespace spillway
