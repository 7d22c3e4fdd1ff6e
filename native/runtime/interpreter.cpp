// The loop over instructions. Worked example: COPY_IN gets a ticket from the in stream; its WAIT blocks until that ticket
// is complete, and the time that it blocks is the stall of its cause.
#include "runtime/interpreter.hpp"

#include <algorithm>

#include "gen/ops.h"
#include "plan/bindings.hpp"

namespace spillway {
namespace {

/// Marks of segments closer together than this are not reported: a step may have thousands.
constexpr double MARK_SECONDS = 0.05;

size_t count_tag(const Tape& tape, Tag tag) {
  return size_t(std::count_if(tape.instrs.begin(), tape.instrs.end(), [&](const InstrRecord& i) { return Tag(i.tag) == tag; }));
}

size_t kinds() {
  size_t most = 0;
  for (const OpInfo& op : OP_TABLE) most = std::max<size_t>(most, op.wire);
  return most + 1;
}

}  // namespace

Interpreter::Interpreter(const Tape& tape, Program& program, Pages& pages, Tier& tier, Throttle throttle)
    : tape_(tape), program_(program), pages_(pages), tier_(tier), tickets_(tape.events), seconds_by_kind_(kinds()) {
  for (const BindingRecord& b : tape.bindings)
    if (BindingRole(b.role) == BindingRole::loss) losses_.emplace_back(last_writer(tape, b), b.view);
  std::sort(losses_.begin(), losses_.end());
  out_.emplace(StreamId::out, count_tag(tape, Tag::copy_out), throttle.out, [this](const CopyJob& j, uint64_t lo, uint64_t hi) { return move_out(j, lo, hi); });
  in_.emplace(StreamId::in, count_tag(tape, Tag::copy_in), throttle.in, [this](const CopyJob& j, uint64_t lo, uint64_t hi) { return move_in(j, lo, hi); });
}

Status Interpreter::move_out(const CopyJob& job, uint64_t lo, uint64_t hi) {
  const TransferRecord& t = tape_.transfers[job.transfer];
  return tier_.write(t.far_offset + lo, pages_.at(t.buffer, t.offset + lo), hi - lo);
}

Status Interpreter::move_in(const CopyJob& job, uint64_t lo, uint64_t hi) {
  const TransferRecord& t = tape_.transfers[job.transfer];
  std::byte* const into = pages_.at(t.buffer, t.offset + lo);
  if (!t.from_source()) return tier_.read(t.far_offset + lo, into, hi - lo);
  return source_->read(t.binding, job.step, t.far_offset + lo, {into, hi - lo});
}

void Interpreter::copy(uint32_t index, CopyStream& stream, StepMetrics& metrics) {
  const InstrRecord& instr = tape_.instrs[index];
  const TransferRecord& t = tape_.transfers[instr.a];
  const bool out = Tag(instr.tag) == Tag::copy_out;
  (out ? metrics.bytes_out : t.from_source() ? metrics.bytes_fed : metrics.bytes_in) += t.bytes;
  tickets_[instr.b] = {&stream, stream.push({instr.a, index, t.bytes, step_.step})};
}

Status Interpreter::wait(uint32_t event, uint32_t cause, StepMetrics& metrics) {
  const Ticket& ticket = tickets_[event];
  const Clock::time_point start = Clock::now();
  Status s = ticket.stream->wait(ticket.number);
  (cause == 0 ? metrics.stall_memory_seconds : metrics.stall_data_seconds) += seconds_since(start);
  return s;
}

Status Interpreter::call(uint32_t index, uint32_t call, StepMetrics& metrics) {
  const CallRecord& c = tape_.calls[call];
  const Clock::time_point start = Clock::now();
  Status s = program_.run(call, step_);
  const Clock::time_point end = Clock::now();
  const double seconds = seconds_between(start, end);
  metrics.kernel_seconds += seconds;
  if (c.recompute()) metrics.recompute_seconds += seconds;
  seconds_by_kind_[c.kind] += seconds;
  if (record_) timeline_.spans.push_back({StreamId::compute, index, call, seconds_between(step_start_, start), seconds_between(step_start_, end)});
  if (!s.ok()) return refuse("instruction ", index, ", call ", call, " (", op_info(c.kind)->kind, "): ", s.message);
  metrics.loss += read_loss(index);
  return s;
}

double Interpreter::read_loss(uint32_t instruction) const {
  double sum = 0;
  auto it = std::lower_bound(losses_.begin(), losses_.end(), std::pair(instruction, uint32_t(0)));
  for (; it != losses_.end() && it->first == instruction; ++it) {
    const ViewRecord& v = tape_.views[it->second];
    const std::byte* at = pages_.at(v.buffer, v.offset);
    sum += tape_.float_type == DType::f64 ? *reinterpret_cast<const double*>(at) : *reinterpret_cast<const float*>(at);
  }
  return sum;
}

void Interpreter::hold(uint32_t residency, bool acquire) {
  const uint64_t pages = tape_.residencies[residency].pages;
  acquire ? pages_.acquire(pages) : pages_.release(pages);
  if (record_) timeline_.memory.push_back({seconds_since(step_start_), pages_.held()});
}

void Interpreter::mark(const InstrRecord& instr, const RunOptions& options) {
  if (!options.progress || seconds_since(last_mark_) < MARK_SECONDS) return;
  last_mark_ = Clock::now();
  options.progress({Progress::Phase::segment, step_.step, instr.a, instr.b, 0, seconds_since(step_start_)});
}

Status Interpreter::execute(uint32_t index, const RunOptions& options, StepMetrics& metrics) {
  const InstrRecord& i = tape_.instrs[index];
  switch (Tag(i.tag)) {
    case Tag::call: return call(index, i.a, metrics);
    case Tag::acquire: hold(i.a, true); return {};
    case Tag::release: hold(i.a, false); return {};
    case Tag::copy_out: copy(index, *out_, metrics); return {};
    case Tag::copy_in: copy(index, *in_, metrics); return {};
    case Tag::wait: return wait(i.a, i.b, metrics);
    case Tag::mark: mark(i, options); return {};
  }
  return refuse("instruction ", index, ": unknown tag ", i.tag);
}

Status Interpreter::run_step(const RunOptions& options, StepMetrics& metrics) {
  step_start_ = Clock::now();
  timeline_.spans.clear();
  timeline_.memory.clear();
  if (record_) timeline_.memory.push_back({0, pages_.held()});
  out_->begin_step(step_start_, record_);
  in_->begin_step(step_start_, record_);
  for (uint32_t i = 0; i < tape_.instrs.size(); i++) {
    if (stop_.load(std::memory_order_relaxed) == Stop::at_once) return cancelled();
    if (Status s = execute(i, options, metrics); !s.ok()) return s;
  }
  metrics.seconds = seconds_since(step_start_);
  return {};
}

void Interpreter::stop(Stop how) {
  stop_ = how;
  if (how != Stop::at_once) return;
  out_->interrupt();
  in_->interrupt();
}

void Interpreter::collect(RunMetrics& run) const {
  run.seconds_by_kind = seconds_by_kind_;
  run.arena_peak_bytes = pages_.peak_bytes();
  run.arena_file_bytes = pages_.file_bytes();
  run.disk_bytes = tier_.disk_bytes();
  if (!record_) return;
  run.timeline = timeline_;
  for (const CopyStream* s : {&*out_, &*in_}) run.timeline.spans.insert(run.timeline.spans.end(), s->spans().begin(), s->spans().end());
}

RunMetrics Interpreter::run(const RunOptions& options) {
  RunMetrics run;
  run.steps.reserve(options.steps);
  source_ = options.source;
  record_ = options.timeline;
  if (record_) {
    timeline_.spans.reserve(tape_.instrs.size());
    timeline_.memory.reserve(tape_.instrs.size() + 1);
  }
  std::fill(seconds_by_kind_.begin(), seconds_by_kind_.end(), 0.0);
  for (uint64_t n = 0; n < options.steps && stop_ == Stop::none; n++) {
    step_ = {options.first_step + n, options.seed, options.lr_scale};
    StepMetrics metrics;
    run.status = run_step(options, metrics);
    if (!run.status.ok()) break;
    run.steps.push_back(metrics);
    if (options.progress) options.progress({Progress::Phase::step, step_.step, 0, 0, metrics.loss, metrics.seconds});
  }
  if (!run.status.ok()) {
    out_->abandon();
    in_->abandon();
  }
  run.torn = !run.status.ok();
  if (is_cancelled(run.status)) run.status = {};
  run.cancelled = run.status.ok() && run.steps.size() < options.steps;
  collect(run);
  return run;
}

}  // namespace spillway
