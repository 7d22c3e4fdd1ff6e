// Opens a session in order (tape, memory, tier, kernels, streams) and guards its state.
#include "runtime/session.hpp"

#include <algorithm>
#include <thread>

#include "runtime/random.hpp"

namespace spillway {
namespace {

/// What copies really reach of the lower tier: no more is set aside, whatever the header says.
uint64_t tier_extent(const Tape& tape) {
  uint64_t end = 0;
  for (const TransferRecord& t : tape.transfers)
    if (!t.from_source()) end = std::max(end, t.far_offset + t.bytes);
  return end;
}

/// By counter, so that it does not matter how many threads share the work.
template <class T>
void fill_in_parallel(T* into, uint64_t count, const BindingRecord& b, RandomStream key, int threads) {
  constexpr uint64_t LEAST = uint64_t(1) << 20;
  const uint64_t share = std::max(LEAST, (count / uint64_t(threads) + 4) / 4 * 4);
  std::vector<std::jthread> workers;
  for (uint64_t first = share; first < count; first += share)
    workers.emplace_back([=, &b] { fill_random(into + first, first, std::min(share, count - first), Dist(b.dist), b.a, key); });
  fill_random(into, 0, std::min(share, count), Dist(b.dist), b.a, key);
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(std::span<const std::byte> bytes, const SessionOptions& options) {
  Result<Tape> tape = read_tape(bytes);
  if (!tape.ok()) return tape.status();
  std::unique_ptr<Session> s(new Session(std::move(tape).value()));
  s->device_ = options.device;
  s->threads_ = options.threads > 0 ? options.threads : available_cores();
  Result<std::unique_ptr<Pages>> pages = Pages::open(s->tape_);
  if (!pages.ok()) return pages.status();
  s->pages_ = std::move(pages).value();
  Result<std::unique_ptr<Tier>> tier = options.spill_directory.empty()
      ? open_ram_tier(tier_extent(s->tape_))
      : open_spill_file(options.spill_directory, tier_extent(s->tape_), options.file_calls);
  if (!tier.ok()) return tier.status();
  s->tier_ = std::move(tier).value();
  if (s->device_->set_threads) s->device_->set_threads(s->threads_);
  Result<Program> program = Program::prepare(s->tape_, *s->pages_, *s->device_);
  if (!program.ok()) return program.status();
  s->program_.emplace(std::move(program).value());
  s->interpreter_.emplace(s->tape_, *s->program_, *s->pages_, *s->tier_, options.throttle);
  return s;
}

uint32_t Session::find(std::string_view name) const {
  for (uint32_t i = 0; i < tape_.bindings.size(); i++)
    if (tape_.name(tape_.bindings[i]) == name) return i;
  return NONE;
}

Status Session::check_idle() const {
  if (running_) return refuse("a run is active: wait for its end");
  if (torn_) return refuse("a step was cut short, so weights may be half updated: open a new session");
  return {};
}

Result<std::span<std::byte>> Session::bytes(uint32_t binding) {
  if (Status s = check_idle(); !s.ok()) return s;
  const BindingRecord& b = tape_.bindings[binding];
  if (!b.persistent()) return refuse("'", tape_.name(b), "' is neither parameter nor state: it has no bytes between steps");
  const ViewRecord& v = tape_.views[b.view];
  const uint64_t elements = uint64_t(v.dims[0]) * v.dims[1] * v.dims[2] * v.dims[3];
  return std::span(pages_->at(v.buffer, v.offset), elements * dtype_bytes(DType(v.dtype)));
}

Status Session::init(uint32_t binding, uint64_t seed) {
  Result<std::span<std::byte>> held = bytes(binding);
  if (!held.ok()) return held.status();
  const std::span<std::byte> into = std::move(held).value();
  const BindingRecord& b = tape_.bindings[binding];
  const RandomStream key{seed, stream_of(tape_.name(b))};
  if (DType(b.dtype) == DType::f64) fill_in_parallel(reinterpret_cast<double*>(into.data()), into.size() / 8, b, key, threads_);
  else fill_in_parallel(reinterpret_cast<float*>(into.data()), into.size() / 4, b, key, threads_);
  return {};
}

Status Session::begin(const RunOptions& options) {
  if (Status s = check_idle(); !s.ok()) return s;
  constexpr uint64_t MAX_STEPS = 1'000'000'000;
  if (options.first_step == 0 || options.first_step > MAX_STEPS || options.steps > MAX_STEPS)
    return refuse("steps are numbered from 1, and at most ", MAX_STEPS);
  if (!options.source) return refuse("a run needs a data source");
  if (Status s = options.source->check(); !s.ok()) return s;
  options_ = options;
  interpreter_->arm();
  running_ = true;
  return {};
}

RunMetrics Session::finish() {
  if (device_->set_threads) device_->set_threads(threads_);
  RunMetrics run = interpreter_->run(options_);
  torn_ = run.torn;
  options_ = {};
  running_ = false;
  return run;
}

}  // namespace spillway
