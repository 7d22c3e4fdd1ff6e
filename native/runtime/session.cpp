// Opens a session in order (tape, memory, tier, kernels, streams) and guards its state.
#include "runtime/session.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "runtime/cores.hpp"
#include "runtime/handles.hpp"
#include "runtime/random.hpp"

namespace spillway {
namespace {

/// The bytes of the lower tier that copies reach. No more is allocated, even if the header has a
/// larger number.
uint64_t tier_extent(const Tape& tape) {
  uint64_t end = 0;
  for (const TransferRecord& t : tape.transfers)
    if (t.with_tier()) end = std::max(end, t.far_offset + t.bytes);
  for (const BindingRecord& b : tape.bindings)
    if (tape.at_home(b)) end = std::max(end, b.home + dense_bytes(tape.views[b.view]));
  return end;
}

/// The most of the tier's first bytes that are at most `limit` and cut no slot in two.
uint64_t whole_slots(const Tape& tape, uint64_t limit) {
  uint64_t cut = limit >= tier_extent(tape) ? tier_extent(tape) : limit / SECTOR_BYTES * SECTOR_BYTES;
  for (bool moved = true; moved;) {
    moved = false;
    const auto keep_whole = [&](uint64_t lo, uint64_t bytes) {
      if (lo >= cut || cut >= lo + bytes) return;
      cut = lo;
      moved = true;
    };
    for (const TransferRecord& t : tape.transfers)
      if (t.with_tier()) keep_whole(t.far_offset, t.bytes);
    for (const BindingRecord& b : tape.bindings)
      if (tape.at_home(b)) keep_whole(b.home, dense_bytes(tape.views[b.view]));
  }
  return cut;
}

/// Elements [first, first + count) of a stream, by counter, so that it does not matter how many threads share the work.
template <class T>
void fill_in_parallel(T* into, uint64_t first, uint64_t count, const BindingRecord& b, RandomStream key, int threads) {
  constexpr uint64_t LEAST = uint64_t(1) << 20;
  const uint64_t share = std::max(LEAST, (count / uint64_t(threads) + 4) / 4 * 4);
  std::vector<std::jthread> workers;
  for (uint64_t at = share; at < count; at += share)
    workers.emplace_back([=, &b] { fill_random(into + at, first + at, std::min(share, count - at), b.dist, b.a, key); });
  fill_random(into, first, std::min(share, count), b.dist, b.a, key);
}

Status check_rates(const RunOptions& options) {
  if (options.rates.empty()) return {};
  if (options.rates.size() != options.steps)
    return refuse("a run of ", options.steps, " steps has ", options.rates.size(), " learning rate factors; give one per step");
  for (size_t n = 0; n < options.rates.size(); n++)
    if (!std::isfinite(options.rates[n]) || options.rates[n] < 0)
      return refuse("the learning rate factor of step ", options.first_step + n, " is ", options.rates[n],
                    "; allowed: finite numbers of at least 0");
  return {};
}

}  // namespace

/// Memory that the device's lanes reach where it has such lanes and as far as it may be pinned; a file or plain memory for the rest.
Status Session::open_tier(const SessionOptions& options) {
  const uint64_t all = tier_extent(tape_);
  const bool spills = !options.spill_directory.empty();
  if (device_->asynchronous() && !options.throttle.any())
    tier_.pinned_bytes = whole_slots(tape_, spills ? options.host_bytes.value_or(all) : all);
  if (tier_.pinned_bytes > 0) {
    const Result<std::byte*> pinned = device_->pin(tier_.pinned_bytes);
    if (!pinned.ok()) return within(pinned.status(), "the lower tier needs ", tier_.pinned_bytes, " bytes of pinned memory: ");
    tier_.pinned = pinned.value();
  }
  const uint64_t rest = all - tier_.pinned_bytes;
  const uint64_t plain = spills && tier_.pinned_bytes == 0 ? whole_slots(tape_, options.host_bytes.value_or(0)) : spills ? 0 : rest;
  auto opened = plain == rest ? open_ram_tier(rest)
                : plain == 0  ? open_spill_file(options.spill_directory, rest, options.open_requests)
                              : open_split_tier(plain, options.spill_directory, rest, options.open_requests);
  if (!opened.ok()) return opened.status();
  tier_.rest = std::move(opened).value();
  return {};
}

Result<std::unique_ptr<Session>> Session::open(std::span<const std::byte> bytes, const SessionOptions& options) {
  Result<Tape> tape = read_tape(bytes);
  if (!tape.ok()) return tape.status();
  std::unique_ptr<Session> s(new Session(std::move(tape).value()));
  s->threads_ = options.threads > 0 ? options.threads : default_threads();
  Result<OpenDevice> device = OpenDevice::open(*options.device, {s->threads_, Copies::events(s->tape_), options.precision, true});
  if (!device.ok()) return device.status();
  s->device_.emplace(std::move(device).value());
  Result<std::unique_ptr<Pages>> pages = Pages::open(s->tape_, *s->device_);
  if (!pages.ok()) return pages.status();
  s->pages_ = std::move(pages).value();
  if (Status tier = s->open_tier(options); !tier.ok()) return tier;
  if (options.device->set_threads) options.device->set_threads(s->threads_);
  Result<Program> program = Program::prepare(s->tape_, *s->pages_, *s->device_);
  if (!program.ok()) return program.status();
  s->program_.emplace(std::move(program).value());
  const Placement where = placement(allowed_processors(), s->threads_, granted_processors(), user_places_threads());
  auto copies = Copies::open(s->tape_, *s->device_, *s->pages_, s->tier_, options.throttle, where.copies);
  if (!copies.ok()) return copies.status();
  s->copies_ = std::move(copies).value();
  auto interpreter = Interpreter::open(s->tape_, *s->program_, *s->device_, *s->pages_, *s->copies_);
  if (!interpreter.ok()) return interpreter.status();
  s->interpreter_ = std::move(interpreter).value();
  return s;
}

uint32_t Session::find(std::string_view name) const {
  for (uint32_t i = 0; i < tape_.bindings.size(); i++)
    if (tape_.name(tape_.bindings[i]) == name) return i;
  return NONE;
}

Status Session::check_idle() const {
  if (running_) return refuse("a run is active: wait until it ends");
  if (torn_) return refuse("a step was interrupted, so some weights may be updated and others not: open a new session");
  return {};
}

Result<uint64_t> Session::size(uint32_t binding) const {
  const BindingRecord& b = tape_.bindings[binding];
  if (!b.persistent()) return refuse("'", tape_.name(b), "' is neither parameter nor state: it has no bytes between steps");
  const ViewRecord& v = tape_.views[b.view];
  return uint64_t(v.dims[0]) * v.dims[1] * v.dims[2] * v.dims[3] * dtype_bytes(v.dtype);
}

Status Session::check_persistent(uint32_t binding, uint64_t bytes) const {
  if (Status s = check_idle(); !s.ok()) return s;
  const Result<uint64_t> held = size(binding);
  if (!held.ok()) return held.status();
  return bytes == held.value() ? Status{} : refuse("'", tape_.name(tape_.bindings[binding]), "' has ", held.value(), " bytes, not ", bytes);
}

std::byte* Session::address(uint32_t binding) const {
  const ViewRecord& v = tape_.views[tape_.bindings[binding].view];
  return pages_->at(v.buffer, v.offset);
}

/// A spill file moves from and to whole sectors of memory, which a caller's need not be.
Status Session::with_home(uint64_t home, std::byte* at, uint64_t bytes, bool write) {
  if (home < tier_.pinned_bytes) {
    std::memcpy(write ? tier_.pinned + home : at, write ? at : tier_.pinned + home, bytes);
    return {};
  }
  constexpr uint64_t PIECE = uint64_t(8) << 20;
  const AddressRange piece = AddressRange::map(std::min(PIECE, bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (!piece) return failed(Code::out_of_memory, "moving a parameter needs ", std::min(PIECE, bytes), " bytes of memory: ", system_error());
  for (uint64_t done = 0; done < bytes; done += PIECE) {
    const uint64_t n = std::min(PIECE, bytes - done), offset = home - tier_.pinned_bytes + done;
    if (write) std::memcpy(piece.data(), at + done, n);
    if (Status s = write ? tier_.rest->write(offset, piece.data(), n) : tier_.rest->read(offset, piece.data(), n); !s.ok()) return s;
    if (!write) std::memcpy(at + done, piece.data(), n);
  }
  return {};
}

Status Session::read(uint32_t binding, std::span<std::byte> into) {
  if (Status s = check_persistent(binding, into.size()); !s.ok()) return s;
  if (const BindingRecord& b = tape_.bindings[binding]; tape_.at_home(b)) return with_home(b.home, into.data(), into.size(), false);
  const Status s = device_->copy(Lane::compute, into.data(), address(binding), into.size());
  return s.ok() ? device_->finish(Lane::compute) : s;
}

Status Session::write(uint32_t binding, std::span<const std::byte> from) {
  if (Status s = check_persistent(binding, from.size()); !s.ok()) return s;
  if (const BindingRecord& b = tape_.bindings[binding]; tape_.at_home(b))
    return with_home(b.home, const_cast<std::byte*>(from.data()), from.size(), true);
  const Status s = device_->copy(Lane::compute, address(binding), from.data(), from.size());
  return s.ok() ? device_->finish(Lane::compute) : s;
}

Status Session::init(uint32_t binding, uint64_t seed, std::string_view of, uint64_t first) {
  const Result<uint64_t> bytes = size(binding);
  if (!bytes.ok()) return bytes.status();
  if (Status s = check_idle(); !s.ok()) return s;
  const BindingRecord& b = tape_.bindings[binding];
  const RandomStream key{seed, stream_of(of)};
  const bool apart = device_->asynchronous() || tape_.at_home(b);
  std::vector<std::byte> made(apart ? bytes.value() : 0);
  std::byte* const into = apart ? made.data() : address(binding);
  if (b.dtype == DType::f64)
    fill_in_parallel(reinterpret_cast<double*>(into), first, bytes.value() / 8, b, key, threads_);
  else
    fill_in_parallel(reinterpret_cast<float*>(into), first, bytes.value() / 4, b, key, threads_);
  return apart ? write(binding, made) : Status{};
}

Status Session::begin(const RunOptions& options) {
  if (Status s = check_idle(); !s.ok()) return s;
  constexpr uint64_t MAX_STEPS = 1'000'000'000;
  if (options.first_step == 0 || options.first_step > MAX_STEPS || options.steps > MAX_STEPS)
    return refuse("step numbers start at 1 and end at ", MAX_STEPS);
  if (Status s = check_rates(options); !s.ok()) return s;
  if (!options.source) return refuse("a run needs a data source");
  if (Status s = options.source->check(); !s.ok()) return s;
  if (std::any_of(tape_.bindings.begin(), tape_.bindings.end(), [](const BindingRecord& b) { return b.role == BindingRole::output; })) {
    if (!options.sink) return refuse("the plan has outputs, but no sink is given for them");
    if (options.steps > 1) return refuse("a plan with outputs runs one step at a time, because each step writes them to the same place");
    if (Status s = options.sink->check(); !s.ok()) return s;
  }
  options_ = options;
  communicator_ = options.communicator;
  interpreter_->arm();
  running_ = true;
  return {};
}

RunMetrics Session::finish() {
  if (const auto set_threads = device_->device().set_threads) set_threads(threads_);
  const BoundThreads bound(device_->device(), threads_);
  RunMetrics run = interpreter_->run(options_);
  run.disk_bytes = tier_.rest->disk_bytes();
  torn_ = run.torn;
  options_ = {};
  communicator_ = nullptr;
  running_ = false;
  return run;
}

void Session::stop(Stop how) {
  interpreter_->stop(how);
  Communicator* const c = how == Stop::at_once ? communicator_.load() : nullptr;
  if (c) c->engine->interrupt(c);
}

}  // namespace spillway
