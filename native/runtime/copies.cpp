// Worked example, asynchronous: COPY_OUT records "started" on compute, has the out lane wait for it, copies, records its
// event there; its WAIT has the compute lane wait for the event. The host has only enqueued. By a thread: the thread has
// the far lane wait for "started", brings each piece into a pinned bounce buffer, and writes it to the spill file. Earlier
// pieces may still be on their way to the file.
#include "runtime/copies.hpp"

#include <algorithm>

namespace spillway {
namespace {

size_t count_tag(const Tape& tape, Tag tag) {
  return size_t(std::count_if(tape.instrs.begin(), tape.instrs.end(), [&](const InstrRecord& i) { return i.tag == tag; }));
}

bool is_out(const InstrRecord& i) { return i.tag == Tag::swap_out; }
bool is_copy(const InstrRecord& i) { return is_out(i) || i.tag == Tag::swap_in; }

}  // namespace

/// One direction between the pages and the lower tier. The tier has several parts in flight: in the pages themselves if the host can
/// address them, otherwise in pinned bounce buffers. Copies from the source and to the sink are complete when start() returns.
class Copies::TierMover final : public Mover {
 public:
  TierMover(Copies& copies, bool out, std::byte* bounces)
      : copies_(copies), out_(out), channel_(out ? copies.tier_.rest->out() : copies.tier_.rest->in()) {
    under_way_.reserve(MOST_PIECES);
    for (uint32_t i = 0; bounces && i < channel_.room(); i++) free_.push_back(bounces + i * channel_.part_bytes());
  }
  uint64_t piece_bytes() const override { return channel_.part_bytes(); }

  /// Copies of a stream are in order: one that meets bytes of the tier which are under way waits for them.
  bool has_room(const CopyJob& job, uint64_t lo, uint64_t hi) const override {
    const TransferRecord& t = transfer(job);
    if (ended_) return false;
    if (!t.with_tier()) return !bounces() || !free_.empty();
    const uint64_t from = copies_.far(t, lo), to = copies_.far(t, hi);
    const auto meets = [&](const UnderWay& u) { return u.from < to && from < u.to; };
    return channel_.room() > 0 && (!bounces() || !free_.empty()) && std::none_of(under_way_.begin(), under_way_.end(), meets);
  }
  void start(uint64_t tag, const CopyJob& job, uint64_t lo, uint64_t hi) override {
    const TransferRecord& t = transfer(job);
    std::byte* const at = bounces() ? take() : copies_.pages_.at(t.buffer, t.offset + lo);
    Status s = out_ ? copies_.leave(job, lo, at, hi - lo) : Status{};
    if (s.ok() && t.with_tier()) {
      under_way_.push_back({tag, copies_.far(t, lo), copies_.far(t, hi), job, lo, at});
      return channel_.start(tag, {copies_.far(t, lo), at, hi - lo});
    }
    if (s.ok()) s = out_ ? copies_.hand_out(job, lo, at, hi - lo) : copies_.feed(job, lo, at, hi - lo);
    give(at);
    moved_ = {tag, std::move(s)};
    ended_ = true;
  }
  Moved finish() override {
    if (ended_) {
      ended_ = false;
      return std::move(moved_);
    }
    Moved m = channel_.finish();
    const auto u = std::find_if(under_way_.begin(), under_way_.end(), [&](const UnderWay& w) { return w.tag == m.tag; });
    if (m.status.ok() && !out_) m.status = copies_.arrive(u->job, u->lo, u->at, u->to - u->from);
    give(u->at);
    under_way_.erase(u);
    return m;
  }

 private:
  struct UnderWay {
    uint64_t tag, from, to;
    CopyJob job;
    uint64_t lo;
    std::byte* at;
  };
  const TransferRecord& transfer(const CopyJob& job) const { return copies_.tape_.transfers[job.transfer]; }
  bool bounces() const { return copies_.device_.asynchronous(); }
  std::byte* take() {
    std::byte* const at = free_.back();
    free_.pop_back();
    return at;
  }
  void give(std::byte* at) {
    if (bounces()) free_.push_back(at);
  }

  Copies& copies_;
  const bool out_;
  Channel& channel_;
  std::vector<UnderWay> under_way_;
  std::vector<std::byte*> free_;  // bounce buffers
  Moved moved_;
  bool ended_ = false;
};

Result<std::unique_ptr<Copies>> Copies::open(const Tape& tape, OpenDevice& device, Pages& pages, LowerTier& tier, Throttle throttle,
                                             const Processors& processors) {
  std::unique_ptr<Copies> c(new Copies(tape, device, pages, tier, throttle));
  c->event_of_.resize(tape.instrs.size());
  static const Tape NOTHING_FED;
  const bool lanes_feed = device.asynchronous() && !throttle.any();
  Result<std::unique_ptr<Feeder>> feeder = Feeder::open(lanes_feed ? tape : NOTHING_FED, device);
  if (!feeder.ok()) return feeder.status();
  c->feeder_ = std::move(feeder).value();
  bool threads = false;
  for (uint32_t i = 0; i < tape.instrs.size(); i++) {
    const InstrRecord& instr = tape.instrs[i];
    if (!is_copy(instr)) continue;
    c->event_of_[i] = instr.b;
    c->by_thread_[instr.b] = !c->reached(tape.transfers[instr.a]);
    c->fed_[instr.b] = tape.transfers[instr.a].from_source();
    threads |= c->by_thread_[instr.b];
  }
  std::byte* bounces[2] = {nullptr, nullptr};
  for (size_t i = 0; i < 2 && threads && device.asynchronous(); i++) {
    const Channel& channel = i == 0 ? tier.rest->out() : tier.rest->in();
    const Result<std::byte*> pinned = device.pin(channel.room() * channel.part_bytes());
    if (!pinned.ok()) return pinned.status();
    bounces[i] = pinned.value();
  }
  c->start_threads(processors, bounces[0], bounces[1]);
  return c;
}

void Copies::start_threads(const Processors& processors, std::byte* out, std::byte* in) {
  const auto open = [&](std::optional<CopyStream>& stream, StreamId id, Tag tag, double rate, std::byte* bounces) {
    stream.emplace(id, count_tag(tape_, tag), rate, std::make_unique<TierMover>(*this, id == StreamId::out, bounces), processors);
  };
  open(out_, StreamId::out, Tag::swap_out, throttle_.out, out);
  open(in_, StreamId::in, Tag::swap_in, throttle_.in, in);
}

/// Returns true if the device's own lanes can copy it.
bool Copies::reached(const TransferRecord& t) const {
  if (!device_.asynchronous() || throttle_.any()) return false;
  return (t.from_source() && feeder_->feeds()) || (t.with_tier() && t.far_offset + t.bytes <= tier_.pinned_bytes);
}

bool Copies::by_thread(const InstrRecord& instr) const {
  if (is_copy(instr)) return by_thread_[instr.b];
  return instr.tag == Tag::wait && by_thread_[instr.a];
}

Status Copies::on_lane(const InstrRecord& instr, uint32_t instruction, uint64_t step, bool stamped) {
  const TransferRecord& t = tape_.transfers[instr.a];
  const Lane lane = is_out(instr) ? Lane::out : Lane::in;
  std::byte* const here = pages_.at(t.buffer, t.offset);
  std::byte* const pinned = tier_.pinned + t.far_offset;
  Status s = device_.record(Lane::compute, started(instr.b));
  if (s.ok()) s = device_.wait(lane, started(instr.b));
  if (s.ok() && stamped) s = device_.stamp(lane, stamp_of(instruction, false));
  if (s.ok() && lane == Lane::out)
    s = device_.copy(lane, pinned, here, t.bytes);
  else if (s.ok())
    s = device_.copy(lane, here, t.from_source() ? feeder_->at(instr.a, step) : pinned, t.bytes);
  if (s.ok() && stamped) s = device_.stamp(lane, stamp_of(instruction, true));
  return s.ok() ? device_.record(lane, instr.b) : s;
}

Status Copies::start(uint32_t instruction, uint64_t step, bool stamped) {
  const InstrRecord& instr = tape_.instrs[instruction];
  if (!by_thread_[instr.b]) {
    pending_[instr.b] = {nullptr, 0, part_};
    return on_lane(instr, instruction, step, stamped);
  }
  if (device_.asynchronous())
    if (Status s = device_.record(Lane::compute, started(instr.b)); !s.ok()) return s;
  CopyStream& stream = is_out(instr) ? *out_ : *in_;
  pending_[instr.b] = {&stream, stream.push({instr.a, instruction, tape_.transfers[instr.a].bytes, step}), part_};
  return {};
}

Status Copies::wait(uint32_t event) {
  const Pending& p = pending_[event];
  if (p.stream) return p.stream->wait(p.ticket);
  return p.part == part_ ? device_.wait(Lane::compute, event) : Status{};
}

double Copies::feed_seconds(uint32_t event, Clock::time_point waited_from) const {
  if (!fed_[event] || !pending_[event].stream) return 0;
  const Feeding& fed = feeding_[event];
  return std::max(0.0, seconds_between(std::max(waited_from, fed.from), fed.until));
}

Status Copies::join() {
  bool used[2] = {false, false};
  for (const InstrRecord& i : tape_.instrs)
    if (is_copy(i) && !by_thread_[i.b] && pending_[i.b].part == part_ && !pending_[i.b].stream) used[is_out(i) ? 0 : 1] = true;
  for (const Lane lane : {Lane::out, Lane::in}) {
    if (!used[lane == Lane::out ? 0 : 1]) continue;
    Status s = device_.record(lane, joined(lane));
    if (s.ok()) s = device_.wait(Lane::compute, joined(lane));
    if (!s.ok()) return s;
  }
  return {};
}

/// From the pages to a bounce buffer, after the work that wrote them; nothing where the host sees the pages.
Status Copies::leave(const CopyJob& job, uint64_t lo, std::byte* at, uint64_t bytes) {
  if (!device_.asynchronous()) return {};
  const TransferRecord& t = tape_.transfers[job.transfer];
  Status s = device_.wait(Lane::far_out, started(event_of_[job.instruction]));
  if (s.ok()) s = device_.copy(Lane::far_out, at, pages_.at(t.buffer, t.offset + lo), bytes);
  return s.ok() ? device_.finish(Lane::far_out) : s;
}

/// The way back: a part is read while earlier work may still use the pages, and goes there after it.
Status Copies::arrive(const CopyJob& job, uint64_t lo, const std::byte* at, uint64_t bytes) {
  if (!device_.asynchronous()) return {};
  const TransferRecord& t = tape_.transfers[job.transfer];
  Status s = device_.wait(Lane::far_in, started(event_of_[job.instruction]));
  if (s.ok()) s = device_.copy(Lane::far_in, pages_.at(t.buffer, t.offset + lo), at, bytes);
  return s.ok() ? device_.finish(Lane::far_in) : s;
}

Status Copies::hand_out(const CopyJob& job, uint64_t lo, const std::byte* at, uint64_t bytes) {
  const TransferRecord& t = tape_.transfers[job.transfer];
  return sink_->write(t.binding, t.far_offset + lo, {at, bytes});
}

Status Copies::feed(const CopyJob& job, uint64_t lo, std::byte* at, uint64_t bytes) {
  const TransferRecord& t = tape_.transfers[job.transfer];
  Feeding& feeding = feeding_[event_of_[job.instruction]];
  if (lo == 0) feeding.from = Clock::now();
  Status s = source_->read(t.binding, job.step, t.far_offset + lo, {at, bytes});
  if (s.ok()) s = arrive(job, lo, at, bytes);
  feeding.until = Clock::now();
  return s;
}

void Copies::begin_run(Source* source, Sink* sink, uint64_t first_step, uint64_t last_step) {
  source_ = source;
  sink_ = sink;
  feeder_->begin(source, first_step, last_step);
}

void Copies::begin_step(Clock::time_point start, bool record) {
  out_->begin_step(start, record);
  in_->begin_step(start, record);
}

void Copies::collect(std::vector<Span>& spans) const {
  for (const CopyStream* s : {&*out_, &*in_}) spans.insert(spans.end(), s->spans().begin(), s->spans().end());
}

void Copies::interrupt() {
  out_->interrupt();
  in_->interrupt();
  feeder_->interrupt();
}

void Copies::abandon() {
  out_->abandon();
  in_->abandon();
}

}  // namespace spillway
