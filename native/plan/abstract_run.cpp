// One abstract run of the instruction list, without bytes. In: a tape whose records are right one by one. Out: the first
// instruction with an illegal access or a wrong count of pages. Time is the order of instructions: a copy is in flight from its
// issue to the wait for it, or for a later copy on the same stream; so are exchanges of ranks during compute.
#include <algorithm>
#include <deque>
#include <map>

#include "plan/checks.hpp"
#include "plan/exchanges.hpp"

namespace spillway {
namespace {

enum class Use { read, write };

class AbstractRun {
 public:
  AbstractRun(const Tape& tape, const PageMap& map)
      : tape_(tape),
        map_(map),
        owner_(tape.peak_pages, NONE),
        held_(tape.residencies.size()),
        filled_(tape.residencies.size()),
        loaded_(tape.residencies.size()),
        busy_(tape.residencies.size()),
        from_home_(tape.residencies.size()),
        unsaved_(tape.residencies.size()) {}

  Status run();

 private:
  struct Copy {
    uint32_t transfer, event;
    bool out;
  };
  struct Event {
    bool issued = false, out = false, complete = false, awaited = false, exchanged = false, early = false;
  };
  /// A call on the lane of exchanges, and all that it touches.
  struct Exchange {
    uint32_t call, event;
    std::vector<PhysSpan> spans;
  };
  struct TierSlot {
    uint64_t hi;
    uint32_t event;
  };
  /// Bytes in the lower tier at the start of the step were written by no event of the step.
  static constexpr uint32_t BEFORE = NONE;
  struct Home {
    uint64_t hi;
    uint32_t binding;
  };

  Status step(const InstrRecord& i);
  Status call(uint32_t index);
  Status acquire(uint32_t residency);
  Status release(uint32_t residency);
  Status copy(uint32_t transfer, uint32_t event, bool out);
  Status exchange(uint32_t call, uint32_t event);
  Status wait(uint32_t event, Cause cause);
  Status finish() const;

  Status touch_view(uint32_t view, Use use, const char* what);
  Status touch(uint32_t buffer, uint64_t lo, uint64_t hi, Use use, uint32_t residency);
  Status against_copies(const PhysSpan& span, Use use) const;
  Status write_tier(const TransferRecord& t, uint32_t event);
  Status read_tier(const TransferRecord& t) const;
  Status hand_out(const TransferRecord& t);
  Status settle_homes();
  Result<bool> homewards(const TransferRecord& t) const;
  bool overlaps(const TransferRecord& t, const PhysSpan& span) const;
  void complete(const Copy& copy);

  const Tape& tape_;
  const PageMap& map_;
  std::vector<uint32_t> owner_;          // of each physical page
  std::vector<bool> held_;               // of each residency
  std::vector<bool> filled_;             // of each residency: taken again, for the next step
  std::vector<bool> loaded_;             // of each residency: copied into since then
  std::vector<std::vector<Copy>> busy_;  // copies in flight, of each residency
  std::deque<Copy> out_, in_;
  std::deque<Exchange> exchanges_, early_;  // each way carries them one after the other
  std::vector<Event> events_;
  std::map<uint64_t, TierSlot> tier_;      // what this step wrote to the lower tier, by first byte
  std::map<uint64_t, Home> homes_;         // by first byte
  std::vector<uint32_t> for_next_;         // transfers from homes for the next step
  std::vector<bool> from_home_, unsaved_;  // of each residency: its bytes have a home; they changed since they were copied there
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> handed_;  // bytes of outputs that the sink has: by binding and first byte, the last
  uint64_t pages_ = 0, peak_ = 0;
  bool started_ = false;  // the instructions run
};

Status AbstractRun::acquire(uint32_t residency) {
  if (held_[residency]) return refuse("residency ", residency, " is held already");
  for (const PageRun& run : map_.runs(residency))
    for (uint64_t p = run.page; p < run.page + run.count; p++) {
      if (owner_[p] != NONE) return refuse("physical page ", p, " belongs to residency ", owner_[p]);
      owner_[p] = residency;
    }
  filled_[residency] = started_ && tape_.residencies[residency].ahead();
  held_[residency] = true;
  pages_ += tape_.residencies[residency].pages;
  peak_ = std::max(peak_, pages_);  // at most the pool, since pages have one owner, and so within the budget
  return {};
}

Status AbstractRun::release(uint32_t residency) {
  if (!held_[residency]) return refuse("residency ", residency, " is not held");
  if (tape_.residencies[residency].for_ever()) return refuse("residency ", residency, " is held permanently");
  if (filled_[residency]) return refuse("residency ", residency, " is filled for the next step");
  if (unsaved_[residency]) return refuse("residency ", residency, " was written after its last copy to its home");
  if (!busy_[residency].empty())
    return refuse("residency ", residency, " has a copy in progress (transfer ", busy_[residency][0].transfer, ")");
  for (const std::deque<Exchange>* way : {&exchanges_, &early_})
    for (const Exchange& x : *way)
      for (const PhysSpan& s : x.spans)
        if (s.residency == residency) return refuse("residency ", residency, " has an exchange in progress (call ", x.call, ")");
  for (const PageRun& run : map_.runs(residency)) std::fill_n(owner_.begin() + ptrdiff_t(run.page), run.count, NONE);
  held_[residency] = false;
  pages_ -= tape_.residencies[residency].pages;
  return {};
}

bool AbstractRun::overlaps(const TransferRecord& t, const PhysSpan& span) const {
  bool unmapped = false;
  return !map_.walk(tape_, t.buffer, t.offset, t.offset + t.bytes, unmapped,
                    [&](const PhysSpan& s) { return s.hi <= span.lo || span.hi <= s.lo; });
}

Status AbstractRun::against_copies(const PhysSpan& span, Use use) const {
  for (const std::deque<Exchange>* way : {&exchanges_, &early_})
    for (const Exchange& x : *way)
      for (const PhysSpan& s : x.spans)
        if (s.lo < span.hi && span.lo < s.hi) return refuse("call ", x.call, " is still exchanging these bytes with other ranks");
  for (const Copy& c : busy_[span.residency]) {
    if (c.out && use == Use::read) continue;
    if (overlaps(tape_.transfers[c.transfer], span))
      return refuse("transfer ", c.transfer, " is still ", c.out ? "swapping these bytes out" : "swapping these bytes in");
  }
  return {};
}

/// `residency`: whose bytes these must be; NONE: anyone's who holds them.
Status AbstractRun::touch(uint32_t buffer, uint64_t lo, uint64_t hi, Use use, uint32_t residency) {
  Status status;
  bool unmapped = false;
  map_.walk(tape_, buffer, lo, hi, unmapped, [&](const PhysSpan& span) {
    if (residency != NONE && span.residency != residency)
      status = refuse("bytes of residency ", span.residency, ", not ", residency);
    else if (residency == NONE && filled_[span.residency])
      status = refuse("residency ", span.residency, " is filled for the next step");
    else if (!held_[span.residency])
      status = refuse("residency ", span.residency, " is not held");
    else
      status = against_copies(span, use);
    if (use == Use::write && residency == NONE && from_home_[span.residency]) unsaved_[span.residency] = true;
    return status.ok();
  });
  if (unmapped) return refuse("buffer ", buffer, " has no page for some of bytes [", lo, ", ", hi, ")");
  return status.ok() ? status : within(status, "buffer ", buffer, ": ");
}

Status AbstractRun::touch_view(uint32_t view, Use use, const char* what) {
  const ViewRecord& v = tape_.views[view];
  Status status;
  for_each_block(v, [&](uint64_t lo, uint64_t hi) { return (status = touch(v.buffer, lo, hi, use, NONE)).ok(); });
  return status.ok() ? status : within(status, what, " (view ", view, "): ");
}

Status AbstractRun::call(uint32_t index) {
  const CallRecord& c = tape_.calls[index];
  const uint32_t* operand = tape_.operands.data() + c.first_operand;
  const OpInfo& op = *op_info(c.kind);
  for (uint32_t i = 0; i < c.ins; i++)
    if (Status s = touch_view(operand[i], op.in(i).written ? Use::write : Use::read, "input"); !s.ok()) return s;
  for (uint32_t o = 0; o < c.outs; o++)
    if (Status s = touch_view(operand[c.ins + o], Use::write, "output"); !s.ok()) return s;
  return c.workspace_view == NONE ? Status{} : touch_view(c.workspace_view, Use::write, "workspace");
}

/// No other instruction may read its operands either: they may be written, perhaps later.
Status AbstractRun::exchange(uint32_t index, uint32_t event) {
  if (events_[event].issued) return refuse("event ", event, " is signalled twice");
  if (Status s = call(index); !s.ok()) return s;
  const CallRecord& c = tape_.calls[index];
  Exchange x{index, event, {}};
  const auto held = [&](uint32_t view) {
    const ViewRecord& v = tape_.views[view];
    for_each_block(v, [&](uint64_t lo, uint64_t hi) {
      bool unmapped = false;
      return map_.walk(tape_, v.buffer, lo, hi, unmapped, [&](const PhysSpan& s) {
        x.spans.push_back(s);
        return true;
      });
    });
  };
  for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++) held(tape_.operands[c.first_operand + i]);
  if (c.workspace_view != NONE) held(c.workspace_view);
  const bool early = !goes_beside(tape_, c);
  events_[event] = {.issued = true, .exchanged = true, .early = early};
  (early ? early_ : exchanges_).push_back(std::move(x));
  return {};
}

Status AbstractRun::write_tier(const TransferRecord& t, uint32_t event) {
  const uint64_t lo = t.far_offset, hi = lo + t.bytes;
  for (const Copy& c : in_) {
    const TransferRecord& r = tape_.transfers[c.transfer];
    if (r.with_tier() && r.far_offset < hi && lo < r.far_offset + r.bytes)
      return refuse("transfer ", c.transfer, " is still reading these tier bytes");
  }
  for (const uint32_t n : for_next_) {
    const TransferRecord& r = tape_.transfers[n];
    if (r.far_offset < hi && lo < r.far_offset + r.bytes) return refuse("transfer ", n, " has read these tier bytes for the next step");
  }
  auto it = tier_.lower_bound(lo);
  if (it != tier_.begin() && std::prev(it)->second.hi > lo) {
    --it;
    const TierSlot before = it->second;
    it->second.hi = lo;
    if (before.hi > hi) tier_[hi] = before;
    ++it;
  }
  while (it != tier_.end() && it->first < hi) {
    if (it->second.hi > hi) tier_[hi] = it->second;
    it = tier_.erase(it);
  }
  tier_[lo] = {hi, event};
  return {};
}

Status AbstractRun::read_tier(const TransferRecord& t) const {
  uint64_t at = t.far_offset;
  const uint64_t hi = at + t.bytes;
  auto it = tier_.upper_bound(at);
  if (it != tier_.begin()) --it;
  for (; at < hi; ++it) {
    if (it == tier_.end() || it->first > at || it->second.hi <= at) return refuse("nothing was written to tier byte ", at, " in this step");
    if (it->second.event != BEFORE && !events_[it->second.event].complete)
      return refuse("no wait for the copy that writes tier byte ", at, " (event ", it->second.event, ")");
    at = it->second.hi;
  }
  return {};
}

/// Homes do not meet, and hold their bytes when the step begins.
Status AbstractRun::settle_homes() {
  for (uint32_t i = 0; i < tape_.bindings.size(); i++) {
    const BindingRecord& b = tape_.bindings[i];
    if (!tape_.at_home(b)) continue;
    const uint64_t hi = b.home + dense_bytes(tape_.views[b.view]);
    const auto next = homes_.lower_bound(b.home);
    if ((next != homes_.end() && next->first < hi) || (next != homes_.begin() && std::prev(next)->second.hi > b.home))
      return refuse("binding ", i, " ('", tape_.name(b), "'): its home overlaps another binding's");
    homes_[b.home] = {hi, i};
    // Bytes up to the next sector are between two homes.
    tier_[b.home] = {(hi + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES, BEFORE};
  }
  return {};
}

/// Returns true if the other end of a copy is in homes: then it moves all bytes that its residency has of them, between the homes and
/// their places in its buffer. Homes of one buffer lie in the lower tier as they lie there.
Result<bool> AbstractRun::homewards(const TransferRecord& t) const {
  const uint64_t lo = t.far_offset, hi = lo + t.bytes;
  const uint64_t end = lo + tape_.residencies[t.residency].pages * PAGE_BYTES;
  auto home = homes_.upper_bound(lo);
  if (home != homes_.begin() && std::prev(home)->second.hi > lo) --home;
  if (home == homes_.end() || home->first >= hi) return false;
  uint64_t last = lo;
  for (; home != homes_.end() && home->first < end; ++home) {
    const BindingRecord& b = tape_.bindings[home->second.binding];
    const bool is_alike = home->first - tape_.views[b.view].offset + t.offset == lo;
    if (!is_alike && home->first >= hi) break;
    if (!is_alike) return refuse("it has another offset in the home of '", tape_.name(b), "' than in its buffer");
    last = std::min(end, home->second.hi);
    if (last > hi) return refuse("it moves only a part of the residency's bytes of '", tape_.name(b), "'");
  }
  if (last < hi) return refuse("it moves ", hi - last, " bytes behind the homes in its buffer");
  return true;
}

/// Each byte of an output is handed out once.
Status AbstractRun::hand_out(const TransferRecord& t) {
  const uint64_t lo = t.far_offset, hi = lo + t.bytes;
  const auto next = handed_.lower_bound({t.binding, lo});
  const bool meets_next = next != handed_.end() && next->first.first == t.binding && next->first.second < hi;
  const bool meets_last = next != handed_.begin() && std::prev(next)->first.first == t.binding && std::prev(next)->second > lo;
  if (meets_next || meets_last)
    return refuse("bytes [", lo, ", ", hi, ") of '", tape_.name(tape_.bindings[t.binding]), "' are output twice");
  handed_[{t.binding, lo}] = hi;
  return {};
}

Status AbstractRun::copy(uint32_t transfer, uint32_t event, bool out) {
  const TransferRecord& t = tape_.transfers[transfer];
  if (events_[event].issued) return refuse("event ", event, " is signalled twice");
  if (out && t.from_source()) return refuse("transfer ", transfer, " comes from the data source");
  if (!out && t.to_sink()) return refuse("transfer ", transfer, " goes to the sink");
  if (Status s = touch(t.buffer, t.offset, t.offset + t.bytes, out ? Use::read : Use::write, t.residency); !s.ok()) return s;
  const bool ahead = tape_.residencies[t.residency].ahead();
  if (ahead && (out ? filled_[t.residency] || !t.with_tier() : !filled_[t.residency]))
    return refuse("transfer ", transfer, ": residency ", t.residency, " begins the step, and is only filled for the next");
  if (t.with_tier()) {
    const Result<bool> home = homewards(t);
    if (!home.ok()) return within(home.status(), "transfer ", transfer, ": ");
    if (!home.value() && (ahead || from_home_[t.residency]))
      return refuse("transfer ", transfer, ": residency ", t.residency, " has another home");
    from_home_[t.residency] = home.value();
    unsaved_[t.residency] = false;
  }
  if (t.to_sink()) {
    if (Status s = hand_out(t); !s.ok()) return s;
  } else if (out) {
    if (Status s = write_tier(t, event); !s.ok()) return s;
  } else if (t.with_tier()) {
    if (Status s = read_tier(t); !s.ok()) return s;
    if (ahead) for_next_.push_back(transfer);
  }
  loaded_[t.residency] = filled_[t.residency];
  events_[event] = {.issued = true, .out = out};
  const Copy c{transfer, event, out};
  (out ? out_ : in_).push_back(c);
  busy_[t.residency].push_back(c);
  return {};
}

void AbstractRun::complete(const Copy& copy) {
  events_[copy.event].complete = true;
  auto& busy = busy_[tape_.transfers[copy.transfer].residency];
  busy.erase(std::find_if(busy.begin(), busy.end(), [&](const Copy& c) { return c.event == copy.event; }));
}

Status AbstractRun::wait(uint32_t event, Cause cause) {
  Event& e = events_[event];
  if (!e.issued) return refuse("event ", event, " has a wait before its signal");
  if (e.exchanged != (cause == Cause::ranks))
    return refuse("event ", event, " belongs to ", e.exchanged ? "an exchange" : "a copy", "; its wait has the wrong cause, ",
                  name_of(cause));
  e.awaited = true;
  auto& way = e.early ? early_ : exchanges_;
  while (e.exchanged && !e.complete) {
    events_[way.front().event].complete = true;
    way.pop_front();
  }
  auto& stream = e.out ? out_ : in_;
  while (!e.complete) {
    complete(stream.front());
    stream.pop_front();
  }
  return {};
}

Status AbstractRun::step(const InstrRecord& i) {
  switch (i.tag) {
    case Tag::call:
      return goes_beside(tape_, tape_.calls[i.a]) ? refuse("it runs concurrently, but has a plain call instruction") : call(i.a);
    case Tag::exchange:
      return goes_beside(tape_, tape_.calls[i.a]) || may_begin_early(tape_, tape_.calls[i.a])
                 ? exchange(i.a, i.b)
                 : refuse("it has an exchange instruction, but does not run concurrently");
    case Tag::acquire:
      return acquire(i.a);
    case Tag::release:
      return release(i.a);
    case Tag::swap_out:
      return copy(i.a, i.b, true);
    case Tag::swap_in:
      return copy(i.a, i.b, false);
    case Tag::wait:
      return wait(i.a, Cause(i.b));
    case Tag::mark:
      break;
  }
  return {};
}

Status AbstractRun::finish() const {
  for (size_t e = 0; e < events_.size(); e++)
    if (!events_[e].issued || !events_[e].awaited) return refuse("event ", e, " is never ", events_[e].issued ? "waited for" : "signalled");
  for (size_t r = 0; r < held_.size(); r++)
    if (tape_.residencies[r].ahead() && !loaded_[r])
      return refuse("residency ", r, " begins the step, but is not filled for the next");
    else if (held_[r] && !tape_.residencies[r].for_ever() && !filled_[r])
      return refuse("residency ", r, " is still held at the end of the step");
  std::vector<uint64_t> handed(tape_.bindings.size());
  for (const auto& [at, hi] : handed_) handed[at.first] += hi - at.second;
  for (size_t b = 0; b < tape_.bindings.size(); b++)
    if (tape_.bindings[b].role == BindingRole::output && handed[b] != dense_bytes(tape_.views[tape_.bindings[b].view]))
      return refuse("'", tape_.name(tape_.bindings[b]), "' is not output completely");
  if (peak_ != tape_.peak_pages) return refuse("the instructions hold at most ", peak_, " pages; the header says ", tape_.peak_pages);
  return {};
}

Status AbstractRun::run() {
  events_.resize(tape_.events);
  if (Status s = settle_homes(); !s.ok()) return s;
  for (const TransferRecord& t : tape_.transfers)
    if (t.with_tier() && tape_.is_ahead(t)) from_home_[t.residency] = true;
  for (uint32_t r = 0; r < tape_.residencies.size(); r++)
    if (tape_.residencies[r].for_ever() || tape_.residencies[r].ahead())
      if (Status s = acquire(r); !s.ok()) return within(s, "residency ", r, " at the start of the step: ");
  started_ = true;
  for (size_t i = 0; i < tape_.instrs.size(); i++) {
    const InstrRecord& instr = tape_.instrs[i];
    if (Status s = step(instr); !s.ok()) return within(s, "instruction ", i, " (", name_of(instr.tag), " ", instr.a, "): ");
  }
  return finish();
}

}  // namespace

Status check_run(const Tape& tape, const PageMap& map) { return AbstractRun(tape, map).run(); }

}  // namespace spillway
