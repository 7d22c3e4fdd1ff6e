// A context of its own for each call that runs: its pool holds the operands one after the other, each on its own pages' start
// or 256 bytes after the last. Questions without data go to one context for each device and precision, which stays open.
#include "runtime/single_call.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "plan/tape.hpp"
#include "core/bf16.hpp"
#include "runtime/clock.hpp"
#include "runtime/cores.hpp"
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
    for (size_t i = 0; i < p.views_.size(); i++) p.views_[i].data = base.value() + p.offsets_[i];
    p.workspace_ = base.value() + operands;
    p.workspace_bytes_ = workspace;
    return p;
  }

  /// The call as the device sees it; valid as long as this object stays where it is.
  KernelCall call() const {
    KernelCall c = host_;
    c.ins = views_.data();
    c.outs = views_.data() + host_.n_ins;
    c.workspace = workspace_;
    c.workspace_bytes = workspace_bytes_;
    return c;
  }
  size_t operands() const { return views_.size(); }
  const View& host(size_t i) const { return i < host_.n_ins ? host_.ins[i] : host_.outs[i - host_.n_ins]; }
  std::byte* at(size_t i) const { return static_cast<std::byte*>(views_[i].data); }

 private:
  explicit Placed(const KernelCall& call) : host_(call) {
    for (uint32_t i = 0; i < call.n_ins + call.n_outs; i++) views_.push_back(host(i));
  }
  uint64_t lay_out() {
    uint64_t end = 0;
    for (size_t i = 0; i < views_.size(); i++) {
      size_t same = 0;
      while (same < i && (!host(i).data || host(same).data != host(i).data)) same++;
      offsets_.push_back(same < i ? offsets_[same] : end);
      if (same == i) end += aligned(span_bytes(views_[i]));
    }
    return end;
  }

  KernelCall host_;
  std::vector<View> views_;
  std::vector<uint64_t> offsets_;
  std::byte* workspace_ = nullptr;
  uint64_t workspace_bytes_ = 0;
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
  if (v.dtype == DType::f64) take_normals<double>(block);
  Status s = device.copy(Lane::compute, at, block.data(), block.size());
  for (uint64_t done = block.size(); s.ok() && done < bytes; done = std::min(bytes, 2 * done)) s = device.copy(Lane::compute, at + done, at, std::min(done, bytes - done));
  return s.ok() ? device.finish(Lane::compute) : s;
}

/// Whether these times, least first, tell how long a run takes: enough of them, and the best two agree.
bool is_settled(const std::vector<double>& seconds, double spent) {
  constexpr size_t LEAST = 3, MOST = 30;
  constexpr double ENOUGH_SECONDS = 0.05, PATIENCE_SECONDS = 0.4, AGREEMENT = 1.1;
  if (seconds.size() < LEAST) return false;
  if (seconds.size() >= MOST || spent > PATIENCE_SECONDS) return true;
  return spent > ENOUGH_SECONDS && seconds[1] <= AGREEMENT * seconds[0];
}

Result<double> time_once(OpenDevice& device, const KernelCall& call) {
  Status s = device.stamp(Lane::compute, 0);
  if (s.ok()) s = device.run(call);
  if (s.ok()) s = device.stamp(Lane::compute, 1);
  if (s.ok()) s = device.finish(Lane::compute);
  return s.ok() ? Result<double>(device.seconds_between(0, 1)) : Result<double>(s);
}

std::mutex asked_mutex;

}  // namespace

uint64_t span_bytes(const View& v) {
  uint64_t last = 0;
  for (int d = 0; d < 4; d++) last += uint64_t(v.dims[d] - 1) * uint64_t(v.strides[d]);
  return (last + 1) * dtype_bytes(v.dtype);
}

Result<int64_t> single_workspace(const Device& device, const KernelCall& call, const SingleOptions& options) {
  const std::lock_guard lock(asked_mutex);
  static std::map<std::pair<const Device*, Precision>, OpenDevice> asked;
  if (device.set_threads) device.set_threads(options.threads > 0 ? options.threads : default_threads());
  auto known = asked.find({&device, options.precision});
  if (known == asked.end()) {
    Result<OpenDevice> opened = open(device, options);
    if (!opened.ok()) return opened.status();
    known = asked.emplace(std::pair(&device, options.precision), std::move(opened).value()).first;
  }
  return known->second.workspace(call);
}

Status single_run(const Device& device, const KernelCall& call, const SingleOptions& options) {
  Result<OpenDevice> opened = open(device, options);
  if (!opened.ok()) return opened.status();
  OpenDevice context = std::move(opened).value();
  if (!device.asynchronous) {
    const Status s = context.prepare(call);
    return s.ok() ? context.run(call) : s;
  }
  const int64_t need = context.workspace(call);
  if (need < 0) return refuse("the device's kernel refuses these shapes");
  const Result<Placed> made = Placed::of(context, call, uint64_t(need));
  if (!made.ok()) return made.status();
  const Placed& placed = made.value();
  const KernelCall there = placed.call();
  Status s = context.prepare(there);
  for (size_t i = 0; s.ok() && i < placed.operands(); i++) s = context.copy(Lane::compute, placed.at(i), placed.host(i).data, span_bytes(placed.host(i)));
  if (s.ok()) s = context.begin_step(*call.step);
  if (s.ok()) s = context.run(there);
  for (size_t i = 0; s.ok() && i < placed.operands(); i++) s = context.copy(Lane::compute, placed.host(i).data, placed.at(i), span_bytes(placed.host(i)));
  return s.ok() ? context.finish(Lane::compute) : s;
}

Result<Measured> measure_repeated(const Device& device, const KernelCall& call, const SingleOptions& options) {
  Result<OpenDevice> opened = open(device, options);
  if (!opened.ok()) return opened.status();
  OpenDevice context = std::move(opened).value();
  const int64_t need = context.workspace(call);
  if (need < 0) return refuse("the device's kernel refuses these shapes");
  const Result<Placed> made = Placed::of(context, call, uint64_t(need));
  if (!made.ok()) return made.status();
  const KernelCall there = made.value().call();
  Status s = context.prepare(there);
  for (size_t i = 0; s.ok() && i < made.value().operands(); i++) s = fill_operand(context, made.value().host(i), made.value().at(i));
  if (s.ok()) s = context.begin_step(*call.step);
  if (s.ok()) s = context.run(there);
  if (s.ok()) s = context.finish(Lane::compute);
  if (!s.ok()) return s;
  std::vector<double> seconds;
  const Clock::time_point start = Clock::now();
  while (!is_settled(seconds, seconds_since(start))) {
    const Result<double> once = time_once(context, there);
    if (!once.ok()) return once.status();
    seconds.push_back(once.value());
    std::sort(seconds.begin(), seconds.end());
  }
  return Measured{seconds.front(), true};
}

}  // namespace spillway
