// The copies of a step, and the waits for them. If the device reaches both ends, its own lanes copy and the compute lane
// waits. Otherwise (a spill file, memory that is not pinned, a throttled link) a thread carries the bytes, and the host
// waits. Invariant: a copy sees all earlier work of the compute lane; a wait precedes all later work.
#pragma once
#include <optional>

#include "runtime/feeder.hpp"
#include "runtime/pages.hpp"
#include "runtime/sink.hpp"
#include "runtime/tier.hpp"

namespace spillway {

/// The lower tier: its first bytes are pinned memory, the others lie in `rest` (which starts at its own offset 0).
struct LowerTier {
  std::byte* pinned = nullptr;
  uint64_t pinned_bytes = 0;
  std::unique_ptr<Tier> rest;
};

/// Bytes per second of an imitated link; 0: as fast as it goes.
struct Throttle {
  double out = 0, in = 0;
  bool any() const { return out > 0 || in > 0; }
};

/// Stamps of an instruction: when it began and ended on its lane.
constexpr uint32_t stamp_of(uint32_t instruction, bool end) { return 2 + 2 * instruction + (end ? 1 : 0); }
constexpr uint32_t STEP_START = 0, STEP_END = 1;

class Copies {
 public:
  /// The threads that carry bytes run on these processors; none: anywhere.
  static Result<std::unique_ptr<Copies>> open(const Tape& tape, OpenDevice& device, Pages& pages, LowerTier& tier, Throttle throttle,
                                              const Processors& processors = {});
  /// Events of the device: one for each end of a copy, one for each start, one for each lane that
  /// joins.
  static uint32_t events(const Tape& tape) { return 2 * tape.events + LANES; }

  /// Returns true if a thread carries this COPY, or this WAIT is for such a COPY.
  bool by_thread(const InstrRecord& instr) const;
  /// The source's part of a wait that began then and has ended, without the copies queued before its own.
  double feed_seconds(uint32_t event, Clock::time_point waited_from) const;
  Status start(uint32_t instruction, uint64_t step, bool stamped);
  Status wait(uint32_t event);
  /// The following work is captured as one part, without earlier work in flight.
  void begin_part() { part_++; }
  /// The lanes join the compute lane: their work so far completes before later work.
  Status join();

  Feeder& feeder() { return *feeder_; }
  void begin_run(Source* source, Sink* sink, uint64_t first_step, uint64_t last_step);
  /// Only while no copy is in flight.
  void begin_step(Clock::time_point start, bool record);
  void collect(std::vector<Span>& spans) const;
  /// Lets every wait of the host return; any thread may call it.
  void interrupt();
  /// Returns when no thread copies any more.
  void abandon();

 private:
  struct Pending {
    CopyStream* stream = nullptr;
    CopyStream::Ticket ticket = 0;
    uint32_t part = NONE;
  };

  Copies(const Tape& tape, OpenDevice& device, Pages& pages, LowerTier& tier, Throttle throttle)
      : tape_(tape),
        device_(device),
        pages_(pages),
        tier_(tier),
        throttle_(throttle),
        pending_(tape.events),
        by_thread_(tape.events),
        fed_(tape.events),
        feeding_(tape.events) {}
  bool reached(const TransferRecord& t) const;
  class TierMover;
  void start_threads(const Processors& processors, std::byte* out, std::byte* in);
  Status on_lane(const InstrRecord& instr, uint32_t instruction, uint64_t step, bool stamped);
  Status leave(const CopyJob& job, uint64_t lo, std::byte* at, uint64_t bytes);
  Status arrive(const CopyJob& job, uint64_t lo, const std::byte* at, uint64_t bytes);
  Status hand_out(const CopyJob& job, uint64_t lo, const std::byte* at, uint64_t bytes);
  Status feed(const CopyJob& job, uint64_t lo, std::byte* at, uint64_t bytes);
  uint64_t far(const TransferRecord& t, uint64_t lo) const { return t.far_offset - tier_.pinned_bytes + lo; }
  uint32_t started(uint32_t event) const { return tape_.events + event; }
  uint32_t joined(Lane lane) const { return 2 * tape_.events + uint32_t(lane); }

  const Tape& tape_;
  OpenDevice& device_;
  Pages& pages_;
  LowerTier& tier_;
  const Throttle throttle_;
  Source* source_ = nullptr;
  Sink* sink_ = nullptr;
  std::unique_ptr<Feeder> feeder_;
  std::vector<Pending> pending_;       // by event
  std::vector<bool> by_thread_, fed_;  // by event
  struct Feeding {
    Clock::time_point from, until;
  };
  std::vector<Feeding> feeding_;    // by event: when the thread read the source; written before the event is complete
  std::vector<uint32_t> event_of_;  // by instruction index of a COPY; used by the threads
  uint32_t part_ = 0;
  std::optional<CopyStream> out_, in_;  // last: their threads use the others
};

}  // namespace spillway
