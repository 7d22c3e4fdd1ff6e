// The loop over instructions. On a device that computes at once an instruction is done when its turn is over, and the clock
// tells how long it took. On an asynchronous one the loop only enqueues; the first two steps of a session (the first warms up),
// and the last of a run whose timeline is wanted, carry stamps that tell the times; the others replay graphs and tell none.
// Worked example: CALL CALL COPY_OUT* CALL WAIT* CALL, where a thread carries out *: three graphs, and two instructions between them.
#include "runtime/interpreter.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "gen/ops.h"
#include "plan/bindings.hpp"
#include "plan/exchanges.hpp"

namespace spillway {
namespace {

/// Marks of segments closer together than this are not reported: a step may have thousands.
constexpr double MARK_SECONDS = 0.05;
constexpr size_t LOSS_BYTES = 8;
/// Steps of a session that run instruction by instruction before graphs take over.
constexpr uint32_t STAMPED_STEPS = 2;

size_t kinds() {
  size_t most = 0;
  for (const OpInfo& op : OP_TABLE) most = std::max<size_t>(most, op.wire);
  return most + 1;
}

size_t exchanges_in(const Tape& tape, bool early) {
  return size_t(std::count_if(tape.instrs.begin(), tape.instrs.end(), [&](const InstrRecord& i) {
    return i.tag == Tag::exchange && is_on_first_way(tape, tape.calls[i.a]) == early;
  }));
}

uint64_t sent_by(const Communicator* c) { return c ? c->sent_bytes + (c->beside ? c->beside->sent_bytes : 0) : 0; }

/// The bytes that a rank had sent at construction.
class Sent {
 public:
  explicit Sent(Communicator* rank)
      : rank_(rank), first_(rank ? rank->sent_bytes : 0), second_(rank && rank->beside ? rank->beside->sent_bytes : 0) {}
  /// Bytes that were counted since then, and no longer count.
  uint64_t taken_back() const {
    const uint64_t since = sent_by(rank_) - first_ - second_;
    if (rank_) rank_->sent_bytes = first_;
    if (rank_ && rank_->beside) rank_->beside->sent_bytes = second_;
    return since;
  }

 private:
  Communicator* rank_;
  uint64_t first_, second_;
};

/// The switch for convolutions that skip zeros.
bool skips_zeros() {
  const char* const zeros = std::getenv("SPILLWAY_ZEROS");
  return !zeros || std::string_view(zeros) != "compute";
}

bool moves_pages(const Tape& tape) {
  return std::any_of(tape.transfers.begin(), tape.transfers.end(), [](const TransferRecord& t) { return t.with_tier(); });
}

}  // namespace

Interpreter::Interpreter(const Tape& tape, Program& program, OpenDevice& device, Pages& pages, Copies& copies)
    : tape_(tape),
      program_(program),
      device_(device),
      pages_(pages),
      copies_(copies),
      seconds_by_kind_(kinds()),
      quiet_steps_(tape.calls.size(), device.asynchronous() || moves_pages(tape)),
      ahead_(tape.events) {
  if (skips_zeros() && !device.asynchronous() && Masks::are_in(tape)) masks_.emplace(tape);
  for (uint32_t i = 0; i < tape.instrs.size(); i++) {
    const InstrRecord& instr = tape.instrs[i];
    if (instr.tag != Tag::swap_in || !tape.is_ahead(tape.transfers[instr.a])) continue;
    copies_ahead_.push_back(i);
    ahead_[instr.b] = true;
  }
  for (const BindingRecord& b : tape.bindings)
    if (b.role == BindingRole::loss) losses_.emplace_back(last_writer(tape, b), b.view);
  std::sort(losses_.begin(), losses_.end());
}

Result<std::unique_ptr<Interpreter>> Interpreter::open(const Tape& tape, Program& program, OpenDevice& device, Pages& pages,
                                                       Copies& copies) {
  std::unique_ptr<Interpreter> i(new Interpreter(tape, program, device, pages, copies));
  if (!i->losses_.empty()) {
    const Result<std::byte*> pinned = device.pin(i->losses_.size() * LOSS_BYTES);
    if (!pinned.ok()) return pinned.status();
    i->fetched_ = pinned.value();
  }
  i->open_exchanges();
  i->split();
  return i;
}

/// Exchanges beside computing go one after the other, in the plan's order, on a thread of their way: all ranks call in the same order.
void Interpreter::open_exchanges() {
  const bool any = exchanges_in(tape_, true) + exchanges_in(tape_, false) > 0;
  exchange_part_.assign(any ? tape_.events : 0, NONE);
  exchange_call_.assign(any ? tape_.events : 0, NONE);
  if (!any || device_.asynchronous()) return;
  exchange_of_.resize(tape_.events);
  begun_ = exchange_lane(true);
  beside_ = exchange_lane(false);
}

std::unique_ptr<Interpreter::ExchangeLane> Interpreter::exchange_lane(bool early) {
  const size_t n = exchanges_in(tape_, early);
  if (n == 0) return nullptr;
  auto lane = std::make_unique<ExchangeLane>();
  lane->seconds_by_kind.resize(kinds());
  lane->stream.emplace(StreamId::ranks, n, 0,
                       std::make_unique<OneAtATime>([this, own = lane.get()](const CopyJob& job, uint64_t, uint64_t) {
                         const Clock::time_point start = Clock::now();
                         Status s = program_.run(job.transfer);
                         own->seconds_by_kind[tape_.calls[job.transfer].kind] += seconds_since(start);
                         return s;
                       }));
  return lane;
}

/// Null where the device has lanes of its own.
Interpreter::ExchangeLane* Interpreter::lane_of(uint32_t call) const {
  return (is_on_first_way(tape_, tape_.calls[call]) ? begun_ : beside_).get();
}

// ---------------------------------------------------------------- instructions

Status Interpreter::call_timed(uint32_t index, uint32_t call, StepMetrics& metrics) {
  const Clock::time_point start = Clock::now();
  Status s = program_.run(call);
  count(tape_.calls[call], index, call, seconds_between(step_start_, start), seconds_since(step_start_), metrics);
  return s;
}

/// A found value ends the run at once. If other ranks wait for exchanges of this one, it ends after the
/// step.
Status Interpreter::met(const Result<std::optional<NotFinite>>& found) {
  if (!found.ok()) return found.status();
  if (!found.value() || not_finite_) return {};
  not_finite_ = found.value();
  not_finite_->step = step_.step;
  return step_.communicator ? Status() : cancelled();
}

Status Interpreter::call_searched(uint32_t call) {
  if (not_finite_) return program_.run(call);
  Status s = device_.finish(Lane::compute);
  if (s.ok()) s = met(search_->before(call));
  if (s.ok()) s = program_.run(call);
  if (s.ok()) s = device_.finish(Lane::compute);
  return s.ok() ? met(search_->after(call)) : s;
}

Status Interpreter::call(uint32_t index, uint32_t call, StepMetrics& metrics) {
  if (masks_) outside_ = masks_->outside_of(call);
  Status s = early_ && is_on_first_way(tape_, tape_.calls[call]) ? join_early() : Status{};
  if (!s.ok()) return s;
  if (search_) {
    s = call_searched(call);
  } else if (!device_.asynchronous()) {
    s = call_timed(index, call, metrics);
  } else {
    if (stamped_) s = device_.stamp(Lane::compute, stamp_of(index, false));
    if (s.ok()) s = stamped_ ? program_.run(call) : program_.run_grouped(index, call);
    if (s.ok() && stamped_) s = device_.stamp(Lane::compute, stamp_of(index, true));
  }
  if (!s.ok()) return within(s, "instruction ", index, ", call ", call, " (", op_info(tape_.calls[call].kind)->kind, "): ");
  if (const ViewRecord* const made = masks_ ? masks_->made_by(call) : nullptr) masks_->keep(call, pages_.at(made->buffer, made->offset));
  return fetch_losses(index);
}

void Interpreter::count(const CallRecord& c, uint32_t index, uint32_t call, double start, double end, StepMetrics& metrics) {
  metrics.kernel_seconds += end - start;
  metrics.flops += double(c.flops);
  metrics.skipped_flops += std::exchange(skipped_, 0) * double(c.flops);
  if (c.recompute()) metrics.recompute_seconds += end - start;
  seconds_by_kind_[c.kind] += end - start;
  quiet_steps_.count(call, end - start);
  if (record_) timeline_.spans.push_back({StreamId::compute, index, call, start, end});
}

void Interpreter::count_beside(const InstrRecord& instr, uint32_t index, double start, double end, StepMetrics& metrics) {
  metrics.beside_seconds += end - start;
  seconds_by_kind_[tape_.calls[instr.a].kind] += end - start;
  if (record_) timeline_.spans.push_back({StreamId::ranks, index, instr.a, start, end});
}

/// Losses that this instruction completes go to where the host sees them.
Status Interpreter::fetch_losses(uint32_t instruction) {
  auto it = std::lower_bound(losses_.begin(), losses_.end(), std::pair(instruction, uint32_t(0)));
  for (; it != losses_.end() && it->first == instruction; ++it) {
    const ViewRecord& v = tape_.views[it->second];
    std::byte* const into = fetched_ + size_t(it - losses_.begin()) * LOSS_BYTES;
    if (Status s = device_.copy(Lane::compute, into, pages_.at(v.buffer, v.offset), dtype_bytes(v.dtype)); !s.ok()) return s;
  }
  return {};
}

double Interpreter::sum_of_losses() const {
  double sum = 0;
  for (size_t i = 0; i < losses_.size(); i++) {
    const std::byte* at = fetched_ + i * LOSS_BYTES;
    sum += tape_.float_type == DType::f64 ? *reinterpret_cast<const double*>(at) : double(*reinterpret_cast<const float*>(at));
  }
  return sum;
}

Status Interpreter::copy(uint32_t index, StepMetrics& metrics) {
  const InstrRecord& instr = tape_.instrs[index];
  const TransferRecord& t = tape_.transfers[instr.a];
  (t.to_sink()                  ? metrics.bytes_handed
   : t.from_source()            ? metrics.bytes_fed
   : instr.tag == Tag::swap_out ? metrics.bytes_out
                                : metrics.bytes_in) += t.bytes;
  if (is_unread(instr)) return {};
  return copies_.start(index, step_.step + (ahead_[instr.b] ? 1 : 0), stamped_);
}

/// Returns true for the copies ahead, and the waits for them, in the last step of a run. Graphs keep them: they copy bytes that nobody
/// reads.
bool Interpreter::is_unread(const InstrRecord& instr) const {
  if (!last_ || capturing_) return false;
  return instr.tag == Tag::swap_in ? ahead_[instr.b] : instr.tag == Tag::wait && ahead_[instr.a];
}

/// Loads the data that each other step finds loaded. Their bytes are counted with the copies for the step after the last.
Status Interpreter::load_first(StepMetrics& metrics) {
  const Clock::time_point start = Clock::now();
  for (const uint32_t i : copies_ahead_)
    if (Status s = copies_.start(i, step_.step, false); !s.ok()) return s;
  for (const uint32_t i : copies_ahead_) {
    const uint32_t event = tape_.instrs[i].b;
    const Clock::time_point waited_from = Clock::now();
    if (Status s = copies_.wait(event); !s.ok()) return s;
    metrics.stall_feed_seconds += copies_.feed_seconds(event, waited_from);
  }
  if (!copies_ahead_.empty() && !device_.asynchronous()) metrics.stall_data_seconds += seconds_since(start);
  return {};
}

Status Interpreter::exchange(uint32_t index, const InstrRecord& instr) {
  if (is_on_first_way(tape_, tape_.calls[instr.a])) early_ = instr.b;
  exchange_call_[instr.b] = instr.a;
  ExchangeLane* const lane = lane_of(instr.a);
  if (!lane)
    return within(exchange_on_lane(index, instr), "instruction ", index, ", call ", instr.a, " (", op_info(tape_.calls[instr.a].kind)->kind,
                  "): ");
  exchange_of_[instr.b] = lane->stream->push({.transfer = instr.a, .instruction = index, .bytes = 1, .step = step_.step});
  return {};
}

/// Exchanges that began on the first way precede later exchanges there, at all ranks.
Status Interpreter::join_early() {
  const uint32_t event = *std::exchange(early_, {});
  if (begun_) return begun_->stream->wait(exchange_of_[event]);
  return exchange_part_[event] == part_ ? device_.wait(Lane::compute, event) : Status{};
}

/// As a copy: the lane waits for all that compute was given so far.
Status Interpreter::exchange_on_lane(uint32_t index, const InstrRecord& instr) {
  const uint32_t started = tape_.events + instr.b;
  Status s = device_.record(Lane::compute, started);
  if (s.ok()) s = device_.wait(Lane::ranks, started);
  if (s.ok() && stamped_) s = device_.stamp(Lane::ranks, stamp_of(index, false));
  if (s.ok()) s = program_.run(instr.a);
  if (s.ok() && stamped_) s = device_.stamp(Lane::ranks, stamp_of(index, true));
  if (s.ok()) s = device_.record(Lane::ranks, instr.b);
  exchange_part_[instr.b] = part_;
  return s;
}

/// Work that a graph leaves in flight ends with it: the compute lane waits for the last exchange, and so for all before.
Status Interpreter::join_exchanges() {
  uint32_t last = NONE;
  for (const InstrRecord& i : tape_.instrs)
    if (i.tag == Tag::exchange && exchange_part_[i.b] == part_) last = i.b;
  return last == NONE ? Status{} : device_.wait(Lane::compute, last);
}

Status Interpreter::wait_exchange(uint32_t index, uint32_t event, StepMetrics& metrics) {
  ExchangeLane* const lane = lane_of(exchange_call_[event]);
  if (!lane) {
    Status s = stamped_ ? device_.stamp(Lane::compute, stamp_of(index, false)) : Status{};
    if (s.ok() && exchange_part_[event] == part_) s = device_.wait(Lane::compute, event);
    return s.ok() && stamped_ ? device_.stamp(Lane::compute, stamp_of(index, true)) : s;
  }
  const Clock::time_point start = Clock::now();
  Status s = lane->stream->wait(exchange_of_[event]);
  metrics.stall_ranks_seconds += seconds_since(start);
  return s;
}

Status Interpreter::wait(uint32_t index, const InstrRecord& instr, StepMetrics& metrics) {
  if (Cause(instr.b) == Cause::ranks) return wait_exchange(index, instr.a, metrics);
  if (is_unread(instr)) return {};
  Status s = stamped_ ? device_.stamp(Lane::compute, stamp_of(index, false)) : Status{};
  const Clock::time_point start = Clock::now();
  if (s.ok()) s = copies_.wait(instr.a);
  const double waited = device_.asynchronous() ? 0 : seconds_since(start);
  (Cause(instr.b) == Cause::memory ? metrics.stall_memory_seconds : metrics.stall_data_seconds) += waited;
  if (!device_.asynchronous()) metrics.stall_feed_seconds += copies_.feed_seconds(instr.a, start);
  if (s.ok() && stamped_) s = device_.stamp(Lane::compute, stamp_of(index, true));
  return s;
}

void Interpreter::hold(uint32_t residency, bool acquire) {
  if (replaying_) return;
  const uint64_t pages = tape_.residencies[residency].pages;
  acquire ? pages_.acquire(pages) : pages_.release(pages);
  if (record_) timeline_.memory.push_back({seconds_since(step_start_), pages_.held()});
}

void Interpreter::mark(const InstrRecord& instr, const RunOptions& options) {
  if (replaying_ || !options.progress || seconds_since(last_mark_) < MARK_SECONDS) return;
  last_mark_ = Clock::now();
  options.progress({Progress::Phase::segment, step_.step, instr.a, instr.b, 0, seconds_since(step_start_)});
}

Status Interpreter::execute(uint32_t index, const RunOptions& options, StepMetrics& metrics) {
  const InstrRecord& i = tape_.instrs[index];
  switch (i.tag) {
    case Tag::call:
      return call(index, i.a, metrics);
    case Tag::acquire:
      hold(i.a, true);
      return {};
    case Tag::release:
      hold(i.a, false);
      return {};
    case Tag::swap_out:
    case Tag::swap_in:
      return copy(index, metrics);
    case Tag::wait:
      return wait(index, i, metrics);
    case Tag::exchange:
      return exchange(index, i);
    case Tag::mark:
      mark(i, options);
      return {};
  }
  return refuse("instruction ", index, ": unknown tag ", uint32_t(i.tag));
}

// ---------------------------------------------------------------- steps

Status Interpreter::run_instructions(const RunOptions& options, StepMetrics& metrics) {
  for (uint32_t i = 0; i < tape_.instrs.size(); i++) {
    if (stop_.load(std::memory_order_relaxed) == Stop::at_once) return cancelled();
    if (Status s = execute(i, options, metrics); !s.ok()) return s;
  }
  return {};
}

void Interpreter::split() {
  const char* const graphs = std::getenv("SPILLWAY_GRAPHS");
  if (!device_.has_graphs()) return;
  if (graphs && std::string_view(graphs) == "off") {
    without_graphs_ = "SPILLWAY_GRAPHS=off";
    return;
  }
  for (uint32_t i = 0; i < tape_.instrs.size(); i++) {
    const bool replayed = !copies_.by_thread(tape_.instrs[i]);
    if (parts_.empty() || parts_.back().replayed != replayed) parts_.push_back({i, i, replayed, {0, 0}, {}, 0});
    parts_.back().to = i + 1;
  }
}

Status Interpreter::capture(const RunOptions& options) {
  const uint32_t parity = copies_.feeder().parity(step_.step);
  for (Part& part : parts_) {
    if (!part.replayed) continue;
    part.moved = {};
    copies_.begin_part();
    part_++;
    const Sent before(options.communicator);
    Status s = device_.begin_capture();
    if (!s.ok()) return s;
    for (uint32_t i = part.from; s.ok() && i < part.to; i++) s = execute(i, options, part.moved);
    if (s.ok()) s = copies_.join();
    if (s.ok()) s = join_exchanges();
    const Result<uint32_t> graph = device_.end_capture();
    part.sent = before.taken_back();
    if (!s.ok()) return s;
    if (!graph.ok()) return within(graph.status(), "capturing instructions ", part.from, " to ", part.to, " as a graph: ");
    part.graph[parity] = graph.value();
  }
  captured_[parity] = true;
  return {};
}

/// Bytes to other ranks are counted when calls are made, but a graph makes them once.
Status Interpreter::replay(const Part& part, uint32_t parity, const RunOptions& options, StepMetrics& metrics) {
  if (options.communicator) options.communicator->sent_bytes += part.sent;
  metrics.bytes_out += part.moved.bytes_out;
  metrics.bytes_in += part.moved.bytes_in;
  metrics.bytes_fed += part.moved.bytes_fed;
  metrics.bytes_handed += part.moved.bytes_handed;
  return device_.launch(part.graph[parity]);
}

Status Interpreter::run_parts(const RunOptions& options, StepMetrics& metrics) {
  replaying_ = true;
  const uint32_t parity = copies_.feeder().parity(step_.step);
  capturing_ = true;
  Status s = captured_[parity] ? Status{} : capture(options);
  capturing_ = false;
  if (!s.ok() && s.code == Code::device) {
    replaying_ = false;
    without_graphs_ = s.message;
    parts_.clear();  // what cannot be kept is run: nothing of the step has been
    return run_instructions(options, metrics);
  }
  for (const Part& part : parts_) {
    if (s.ok() && stop_.load(std::memory_order_relaxed) == Stop::at_once) s = cancelled();
    if (!s.ok()) break;
    if (part.replayed) s = replay(part, parity, options, metrics);
    for (uint32_t i = part.from; s.ok() && !part.replayed && i < part.to; i++) s = execute(i, options, metrics);
  }
  replaying_ = false;
  return s;
}

/// A lane's own copies have no clock of the host's: their stamps tell.
void Interpreter::read_stamps(StepMetrics& metrics) {
  for (uint32_t i = 0; i < tape_.instrs.size(); i++) {
    const InstrRecord& instr = tape_.instrs[i];
    const Tag tag = instr.tag;
    if (tag == Tag::acquire || tag == Tag::release || tag == Tag::mark || is_unread(instr) ||
        ((tag == Tag::swap_out || tag == Tag::swap_in) && copies_.by_thread(instr)))
      continue;
    const double start = device_.seconds_between(STEP_START, stamp_of(i, false)),
                 end = device_.seconds_between(STEP_START, stamp_of(i, true));
    if (tag == Tag::call)
      count(tape_.calls[instr.a], i, instr.a, start, end, metrics);
    else if (tag == Tag::exchange)
      count_beside(instr, i, start, end, metrics);
    else if (tag == Tag::wait)
      (Cause(instr.b) == Cause::ranks    ? metrics.stall_ranks_seconds
       : Cause(instr.b) == Cause::memory ? metrics.stall_memory_seconds
                                         : metrics.stall_data_seconds) += end - start;
    else if (record_)
      timeline_.spans.push_back({tag == Tag::swap_out ? StreamId::out : StreamId::in, i, instr.a, start, end});
  }
}

Status Interpreter::end_step(StepMetrics& metrics) {
  Status s = stamped_ ? device_.stamp(Lane::compute, STEP_END) : Status{};
  if (s.ok()) s = device_.finish(Lane::compute);
  if (!s.ok()) return s;
  metrics.seconds = seconds_since(step_start_);
  metrics.loss = sum_of_losses();
  for (ExchangeLane* lane : {begun_.get(), beside_.get()})  // all of it has been waited for
    for (size_t kind = 0; lane && kind < lane->seconds_by_kind.size(); kind++) {
      const double seconds = std::exchange(lane->seconds_by_kind[kind], 0);
      metrics.beside_seconds += seconds;
      seconds_by_kind_[kind] += seconds;
    }
  if (stamped_) read_stamps(metrics);
  return s;
}

Status Interpreter::run_step(const RunOptions& options, bool first, StepMetrics& metrics) {
  step_start_ = Clock::now();
  if (Status s = copies_.feeder().ready(step_.step); !s.ok()) return s;
  metrics.stall_data_seconds = metrics.stall_feed_seconds = seconds_since(step_start_);
  timeline_.spans.clear();
  timeline_.memory.clear();
  if (record_) timeline_.memory.push_back({0, pages_.held()});
  copies_.begin_step(step_start_, record_);
  early_.reset();
  for (ExchangeLane* lane : {begun_.get(), beside_.get()})
    if (lane) lane->stream->begin_step(step_start_, record_);
  if (options.search_from > 0 && step_.step >= options.search_from && !search_) search_.emplace(tape_, device_, pages_);
  const bool warm = stamped_steps_ >= STAMPED_STEPS;
  stamped_ = device_.asynchronous() && !search_ && (!warm || (record_ && last_));
  Status s = device_.begin_step(step_);
  if (s.ok() && stamped_) s = device_.stamp(Lane::compute, STEP_START);
  if (s.ok() && first) s = load_first(metrics);
  if (s.ok()) s = warm && !stamped_ && !search_ && !parts_.empty() ? run_parts(options, metrics) : run_instructions(options, metrics);
  if (s.ok()) s = end_step(metrics);
  if (s.ok() && stamped_) stamped_steps_++;
  return s;
}

// ---------------------------------------------------------------- runs

void Interpreter::stop(Stop how) {
  stop_ = how;
  if (how == Stop::at_once) copies_.interrupt();
  for (ExchangeLane* lane : {begun_.get(), beside_.get()})
    if (how == Stop::at_once && lane) lane->stream->interrupt();
}

void Interpreter::collect(RunMetrics& run) {
  run.seconds_by_kind = seconds_by_kind_;
  run.quiet_call_seconds = quiet_steps_.take();
  run.arena_peak_bytes = pages_.peak_bytes();
  run.arena_file_bytes = device_.pool_bytes();
  run.device_memory = device_.memory();
  run.without_graphs = without_graphs_;
  run.not_finite = not_finite_;
  if (!record_) return;
  run.timeline = timeline_;
  copies_.collect(run.timeline.spans);
  for (const ExchangeLane* lane : {begun_.get(), beside_.get()})
    if (lane) run.timeline.spans.insert(run.timeline.spans.end(), lane->stream->spans().begin(), lane->stream->spans().end());
}

/// Agrees on the next step: if one rank stops, all do.
Result<Accord> Interpreter::accord(const RunOptions& options) const {
  const Accord going = not_finite_ ? Accord::stop : Accord::go_on;
  const Accord own = stop_ == Stop::none ? going : stop_ == Stop::after_step ? Accord::stop : Accord::interrupted;
  return options.communicator ? agree(*options.communicator, own) : own;
}

namespace {

constexpr double LEAST_PATIENCE = 600, PATIENT_STEPS = 20;

/// During steps, a missing rank hangs. Before and after them, a rank may have much work of its own.
class Patience {
 public:
  explicit Patience(const RunOptions& o) : rank_(o.communicator), asked_(o.patience) { after(0); }
  ~Patience() { set(0); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  void after(double step) { set(asked_ > 0 ? asked_ : longest_ = std::max({longest_, LEAST_PATIENCE, PATIENT_STEPS * step})); }

 private:
  void set(double seconds) {
    if (!rank_) return;
    rank_->patience = seconds;
    if (rank_->beside) rank_->beside->patience = seconds;
  }
  Communicator* rank_;
  double asked_, longest_ = 0;
};

}  // namespace

RunMetrics Interpreter::run(const RunOptions& options) {
  RunMetrics run;
  Patience patience(options);
  const uint64_t sent_before = sent_by(options.communicator);
  not_finite_.reset();
  run.steps.reserve(options.steps);
  record_ = options.timeline;
  if (record_) {
    timeline_.spans.reserve(tape_.instrs.size());
    timeline_.memory.reserve(tape_.instrs.size() + 1);
  }
  std::fill(seconds_by_kind_.begin(), seconds_by_kind_.end(), 0.0);
  const Queueing queueing;
  copies_.begin_run(options.source, options.sink, options.first_step, options.first_step + options.steps - 1);
  for (uint64_t n = 0; n < options.steps; n++) {
    const Result<Accord> agreed = accord(options);
    if (!agreed.ok())
      run.status = agreed.status();
    else
      run.accord = agreed.value();
    if (!agreed.ok() || run.accord != Accord::go_on) break;
    step_ = {options.first_step + n,
             options.seed,
             options.rates.empty() ? 1 : options.rates[n],
             options.communicator,
             masks_ ? &skipped_ : nullptr,
             masks_ ? &outside_ : nullptr};
    StepMetrics metrics;
    quiet_steps_.begin_step(queueing);
    last_ = n + 1 == options.steps;
    run.status = run_step(options, n == 0, metrics);
    if (!run.status.ok()) break;
    // Times of calls that skip work say nothing of other data.
    if (warm_ && metrics.skipped_flops == 0 && (!device_.asynchronous() || stamped_)) quiet_steps_.end_step(queueing, metrics.seconds);
    warm_ = true;
    run.steps.push_back(metrics);
    patience.after(metrics.seconds);
    if (options.progress) options.progress({Progress::Phase::step, step_.step, 0, 0, metrics.loss, metrics.seconds});
  }
  if (options.source) options.source->interrupt();
  copies_.feeder().end();
  search_.reset();
  if (!run.status.ok()) {
    if (options.communicator) device_.leave_ranks();  // before anyone waits for a lane that waits for them
    copies_.abandon();
    // Other ranks may wait for ever in an exchange: this rank stops.
    if ((begun_ || beside_) && options.communicator) options.communicator->engine->interrupt(options.communicator);
    for (ExchangeLane* lane : {begun_.get(), beside_.get()})
      if (lane) lane->stream->abandon();
    for (const Lane lane : {Lane::compute, Lane::out, Lane::in, Lane::ranks}) device_.finish(lane);  // what failed is known already
  }
  run.torn = !run.status.ok();
  if (run.status.code == Code::cancelled) run.status = {};
  run.cancelled = run.status.ok() && run.steps.size() < options.steps;
  run.sent_bytes = sent_by(options.communicator) - sent_before;
  collect(run);
  return run;
}

}  // namespace spillway
