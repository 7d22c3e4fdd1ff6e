// A context of its own for each call that runs: its pool holds the operands one after the other, each on its own pages' start
// or 256 bytes after the last. Questions without data go to one context for each device and precision, which stays open.
#include "runtime/single_call.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/communicator.hpp"
#include "core/half.hpp"
#include "gen/wire.h"
#include "runtime/clock.hpp"
#include "runtime/cores.hpp"
#include "runtime/handles.hpp"
#include "runtime/random.hpp"

namespace spillway {
namespace {

constexpr uint64_t PLACE_ALIGN = 256;
constexpr uint64_t aligned(uint64_t bytes) { return (bytes + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN; }

Result<OpenDevice> open(const Device& device, const SingleOptions& options) {
  const int threads = options.threads > 0 ? options.threads : default_threads();
  if (device.set_threads) device.set_threads(threads);
  return OpenDevice::open(device, {threads, 0, options.precision});
}

const View& operand(const KernelCall& c, size_t i) { return i < c.n_ins ? c.ins[i] : c.outs[i - c.n_ins]; }

/// The host addresses of a call's operands, and of its scratch.
std::vector<void*> addresses_of(const KernelCall& c, void* workspace) {
  std::vector<void*> at;
  for (size_t i = 0; i < size_t(c.n_ins) + c.n_outs; i++) at.push_back(operand(c, i).data);
  at.push_back(workspace);
  return at;
}

/// A call's operands and workspace in the memory of a device.
class Placed {
 public:
  /// Operands without data get places of their own.
  static Result<Placed> of(OpenDevice& device, const KernelCall& call, uint64_t workspace) {
    Placed p(call);
    const uint64_t operands = p.lay_out();
    const uint64_t pages = (operands + workspace + PAGE_BYTES - 1) / PAGE_BYTES + 1;
    const PageMapping whole{0, 0, pages};
    const Result<std::byte*> base = device.map({pages, pages, &whole, 1});
    if (!base.ok()) return base.status();
    for (const uint64_t offset : p.offsets_) p.addresses_.push_back(base.value() + offset);
    p.addresses_.push_back(base.value() + operands);
    return p;
  }

  size_t operands() const { return offsets_.size(); }
  const View& host(size_t i) const { return operand(host_, i); }
  std::byte* at(size_t i) const { return static_cast<std::byte*>(addresses_[i]); }
  /// The addresses of the operands, then of the workspace.
  void* const* addresses() const { return addresses_.data(); }

 private:
  explicit Placed(const KernelCall& call) : host_(call) {}

  /// Operands at one address share their place. Out: bytes of all.
  uint64_t lay_out() {
    uint64_t end = 0;
    for (size_t i = 0; i < size_t(host_.n_ins) + host_.n_outs; i++) {
      size_t same = 0;
      while (same < i && (!host(i).data || host(same).data != host(i).data)) same++;
      offsets_.push_back(same < i ? offsets_[same] : end);
      if (same == i) end += aligned(span_bytes(host(i)));
    }
    return end;
  }

  KernelCall host_;
  std::vector<uint64_t> offsets_;
  std::vector<void*> addresses_;
};

/// A million normal numbers, drawn once: drawing them takes longer than most kernels.
const std::vector<float>& normals() {
  static const std::vector<float> drawn = [] {
    std::vector<float> values(1 << 20);
    fill_random(values.data(), 0, values.size(), Dist::normal, 1.0, {1, 0});
    return values;
  }();
  return drawn;
}

template <class T>
void take_normals(std::vector<std::byte>& into) {
  T* const at = reinterpret_cast<T*>(into.data());
  for (size_t i = 0; i < into.size() / sizeof(T); i++) at[i] = T(normals()[i]);
}

/// Every value of a block of a million differs; the block repeats. Labels are 0.
Status fill_operand(OpenDevice& device, const View& v, std::byte* at) {
  const uint64_t bytes = span_bytes(v), element = dtype_bytes(v.dtype);
  std::vector<std::byte> block(std::min<uint64_t>(bytes / element, normals().size()) * element);
  if (v.dtype == DType::f32) take_normals<float>(block);
  if (v.dtype == DType::bf16) take_normals<Bf16>(block);
  if (v.dtype == DType::f16) take_normals<F16>(block);
  if (v.dtype == DType::f64) take_normals<double>(block);
  Status s = device.copy(Lane::compute, at, block.data(), block.size());
  for (uint64_t done = block.size(); s.ok() && done < bytes; done = std::min(bytes, 2 * done))
    s = device.copy(Lane::compute, at + done, at, std::min(done, bytes - done));
  return s.ok() ? device.finish(Lane::compute) : s;
}

/// A host is disturbed by other work; a device stamps its own time, of up to 32 runs at once.
constexpr double HOST_SECONDS = 0.05, DEVICE_SECONDS = 0.005;

/// Returns true if these times, least first, are enough and the best two agree.
bool is_settled(const std::vector<double>& seconds, double spent, double enough) {
  constexpr size_t LEAST = 3, MOST = 30;
  constexpr double PATIENCE_SECONDS = 0.4, AGREEMENT = 1.1;
  if (seconds.size() < LEAST) return false;
  if (seconds.size() >= MOST || spent > PATIENCE_SECONDS) return true;
  return spent > enough && seconds[1] <= AGREEMENT * seconds[0];
}

/// The seconds of the work that f enqueues.
template <class F>
Result<double> time_of(OpenDevice& device, F f) {
  Status s = device.stamp(Lane::compute, 0);
  if (s.ok()) s = f();
  if (s.ok()) s = device.stamp(Lane::compute, 1);
  if (s.ok()) s = device.finish(Lane::compute);
  return s.ok() ? Result<double>(device.seconds_between(0, 1)) : Result<double>(s);
}

/// A call so often in one graph that its launch from the host does not count, as steps replay it; where there are no graphs, or a
/// call lasts, once by itself.
class Timed {
 public:
  Timed(OpenDevice& device, const Addressed& call, double once) : device_(device), call_(call) {
    constexpr double WORTH_SECONDS = 1e-3;
    constexpr uint32_t MOST = 32;
    const auto times = uint32_t(std::clamp(WORTH_SECONDS / std::max(once, 1e-9), 1.0, double(MOST)));
    if (times == 1 || !device.has_graphs() || !device.begin_capture().ok()) return;
    Status s;
    for (uint32_t i = 0; s.ok() && i < times; i++) s = device.run(call);
    const Result<uint32_t> kept = device.end_capture();
    if (!s.ok() || !kept.ok()) return;
    graph_ = kept.value();
    times_ = times;
  }
  Result<double> seconds() {
    const Result<double> all = time_of(device_, [&] { return graph_ ? device_.launch(*graph_) : device_.run(call_); });
    return all.ok() ? Result<double>(all.value() / times_) : all;
  }

 private:
  OpenDevice& device_;
  const Addressed& call_;
  std::optional<uint32_t> graph_;
  uint32_t times_ = 1;
};

std::mutex asked_mutex;

}  // namespace

uint64_t span_bytes(const View& v) {
  uint64_t last = 0;
  for (int d = 0; d < 4; d++) last += uint64_t(v.dims[d] - 1) * uint64_t(v.strides[d]);
  return (last + 1) * dtype_bytes(v.dtype);
}

Result<std::vector<Way>> single_ways(const Device& device, const KernelCall& call, uint32_t most, const SingleOptions& options) {
  const std::lock_guard lock(asked_mutex);
  static auto& asked = *new std::map<std::pair<const Device*, Precision>, OpenDevice>;  // a driver may be gone before statics are
  if (device.set_threads) device.set_threads(options.threads > 0 ? options.threads : default_threads());
  auto known = asked.find({&device, options.precision});
  if (known == asked.end()) {
    Result<OpenDevice> opened = open(device, options);
    if (!opened.ok()) return opened.status();
    known = asked.emplace(std::pair(&device, options.precision), std::move(opened).value()).first;
  }
  return known->second.ways(call, most);
}

namespace {

Status run_here(OpenDevice& context, const PreparedCall& prepared, const KernelCall& call) {
  const uint64_t bytes = prepared.workspace_bytes();
  const AddressRange workspace =
      bytes > 0 ? AddressRange::map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE) : AddressRange();
  if (bytes > 0 && !workspace) return failed(Code::out_of_memory, "cannot allocate ", bytes, " bytes of workspace");
  const std::vector<void*> at = addresses_of(call, workspace.data());
  return context.run(prepared.at(at.data()));
}

Status run_there(OpenDevice& context, const PreparedCall& prepared, const KernelCall& call) {
  const Result<Placed> made = Placed::of(context, call, prepared.workspace_bytes());
  if (!made.ok()) return made.status();
  const Placed& placed = made.value();
  Status s;
  for (size_t i = 0; s.ok() && i < placed.operands(); i++)
    s = context.copy(Lane::compute, placed.at(i), placed.host(i).data, span_bytes(placed.host(i)));
  if (s.ok()) s = context.run(prepared.at(placed.addresses()));
  for (size_t i = 0; s.ok() && i < placed.operands(); i++)
    s = context.copy(Lane::compute, placed.host(i).data, placed.at(i), span_bytes(placed.host(i)));
  return s.ok() ? context.finish(Lane::compute) : s;
}

}  // namespace

Status single_run(const Device& device, const KernelCall& call, const SingleOptions& options) {
  Result<OpenDevice> opened = open(device, options);
  if (!opened.ok()) return opened.status();
  OpenDevice& context = opened.value();
  const Result<PreparedCall> prepared = context.prepare(call);
  if (!prepared.ok()) return prepared.status();
  if (Status s = context.begin_step(*call.step); !s.ok()) return s;
  return device.asynchronous ? run_there(context, prepared.value(), call) : run_here(context, prepared.value(), call);
}

Result<Measured> measure_repeated(const Device& device, const KernelCall& call, const SingleOptions& options) {
  Result<OpenDevice> opened = open(device, options);
  if (!opened.ok()) return opened.status();
  OpenDevice& context = opened.value();
  const Result<PreparedCall> prepared = context.prepare(call);
  if (!prepared.ok()) return prepared.status();
  const Result<Placed> placed = Placed::of(context, call, prepared.value().workspace_bytes());
  if (!placed.ok()) return placed.status();
  const Addressed there = prepared.value().at(placed.value().addresses());
  Status s;
  for (size_t i = 0; s.ok() && i < placed.value().operands(); i++) s = fill_operand(context, placed.value().host(i), placed.value().at(i));
  if (s.ok()) s = context.begin_step(*call.step);
  if (s.ok()) s = context.run(there);
  if (s.ok()) s = context.finish(Lane::compute);
  if (!s.ok()) return s;
  const Result<double> first = time_of(context, [&] { return context.run(there); });
  if (!first.ok()) return first.status();
  Timed timed(context, there, first.value());
  std::vector<double> seconds;
  const Clock::time_point start = Clock::now();
  const double enough = device.asynchronous ? DEVICE_SECONDS : HOST_SECONDS;
  while (!is_settled(seconds, seconds_since(start), enough)) {
    const Result<double> once = timed.seconds();
    if (!once.ok()) return once.status();
    seconds.push_back(once.value());
    std::sort(seconds.begin(), seconds.end());
  }
  return Measured{seconds.front(), true};
}

namespace {

double median(std::vector<double> of) {
  const auto middle = of.begin() + ptrdiff_t(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return *middle;
}

/// The seconds of each rank's last run, at all ranks. Returning from it means that all have met.
Result<double> slowest_of(Communicator& ranks, double own) {
  std::vector<double> all(ranks.size);
  std::vector<uint64_t> bounds(ranks.size + 1);
  for (uint32_t r = 0; r <= ranks.size; r++) bounds[r] = r * sizeof(double);
  all[ranks.rank] = own;
  char words[COMMUNICATOR_WORDS] = {};
  if (const Code code = ranks.engine->all_gather(&ranks, all.data(), bounds.data(), words); code != Code::ok) return failed(code, words);
  return *std::max_element(all.begin(), all.end());
}

/// Until they tell how long a run takes, or took long enough: all ranks decide alike.
template <class F>
Result<double> median_among(Communicator& ranks, F run) {
  constexpr size_t WARMING = 2, LEAST = 3, MOST = 15;
  constexpr double PATIENCE_SECONDS = 0.15;
  std::vector<double> seconds;
  double spent = 0;
  for (size_t n = 0; seconds.size() < MOST && (seconds.size() < LEAST || spent < PATIENCE_SECONDS); n++) {
    if (Result<double> met = slowest_of(ranks, 0); !met.ok()) return met;
    const Clock::time_point began = Clock::now();
    if (const Status s = run(); !s.ok()) return s;
    Result<double> took = slowest_of(ranks, seconds_since(began));
    if (!took.ok()) return took;
    spent += took.value();
    if (n >= WARMING) seconds.push_back(took.value());
  }
  return median(std::move(seconds));
}

}  // namespace

Result<MeasuredAmong> measure_among(const Device& device, const KernelCall& call, Communicator& ranks, const SingleOptions& options) {
  Result<OpenDevice> opened = open(device, options);
  if (!opened.ok()) return opened.status();
  OpenDevice& context = opened.value();
  const Result<PreparedCall> prepared = context.prepare(call);
  if (!prepared.ok()) return prepared.status();
  const Result<Placed> placed = Placed::of(context, call, prepared.value().workspace_bytes());
  if (!placed.ok()) return placed.status();
  const Addressed there = prepared.value().at(placed.value().addresses());
  const auto once = [&] {
    const Status s = context.run(there);
    return s.ok() ? context.finish(Lane::compute) : s;
  };
  StepContext step = *call.step;
  Status s;
  for (size_t i = 0; s.ok() && i < placed.value().operands(); i++) s = fill_operand(context, placed.value().host(i), placed.value().at(i));
  if (s.ok()) s = context.begin_step(step);
  if (!s.ok()) return s;
  // The work of an exchange by itself is measured like any call. The question is the time that other ranks
  // add.
  const Result<double> alone = median_among(ranks, once);
  if (!alone.ok()) return alone.status();
  step.communicator = &ranks;
  if (s = context.begin_step(step); !s.ok()) return s;
  const Result<double> among = median_among(ranks, once);
  return among.ok() ? Result<MeasuredAmong>(MeasuredAmong{among.value(), alone.value()}) : Result<MeasuredAmong>(among.status());
}

}  // namespace spillway
