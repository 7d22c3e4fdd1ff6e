// A copy stream: a thread that has copies carried out, as fast as they go or no faster than a given link.
// In: jobs, pushed by the interpreter. Out: tickets that it can wait for; a ticket is complete when its copy and all before it are.
// Invariant: nothing is allocated once the stream runs; after a failure or abandon() no further copy starts, every wait
// returns, and once abandon() has returned nothing is under way.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/clock.hpp"
#include "runtime/cores.hpp"
#include "runtime/metrics.hpp"
#include "runtime/tier.hpp"

namespace spillway {

/// The bytes of one move for a waiting reader, and the most of one move on a throttled link.
constexpr uint64_t COPY_PIECE_BYTES = uint64_t(8) << 20;

/// Pieces of a stream in flight at once.
constexpr size_t MOST_PIECES = 64;

struct CopyJob {
  uint32_t transfer = 0, instruction = 0;
  uint64_t bytes = 0, step = 0;
};

/// The status of cancelled work.
inline Status cancelled() { return failed(Code::cancelled, "cancelled"); }

/// Moves the pieces of jobs; several may be under way at once. Used by the stream's thread alone.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual uint64_t piece_bytes() const = 0;
  /// Returns true if bytes [lo, hi) may start now: always if nothing is in flight.
  virtual bool has_room(const CopyJob& job, uint64_t lo, uint64_t hi) const = 0;
  virtual void start(uint64_t tag, const CopyJob& job, uint64_t lo, uint64_t hi) = 0;
  /// Waits until a piece has ended, and says which.
  virtual Moved finish() = 0;
};

/// A function that has moved its piece when it returns.
class OneAtATime final : public Mover {
 public:
  using Move = std::function<Status(const CopyJob&, uint64_t lo, uint64_t hi)>;
  explicit OneAtATime(Move move) : move_(std::move(move)) {}
  uint64_t piece_bytes() const override { return COPY_PIECE_BYTES; }
  bool has_room(const CopyJob&, uint64_t, uint64_t) const override { return !ended_; }
  void start(uint64_t tag, const CopyJob& job, uint64_t lo, uint64_t hi) override {
    moved_ = {tag, move_(job, lo, hi)};
    ended_ = true;
  }
  Moved finish() override {
    ended_ = false;
    return std::move(moved_);
  }

 private:
  const Move move_;
  Moved moved_;
  bool ended_ = false;
};

class CopyStream {
 public:
  using Ticket = uint64_t;

  /// `capacity`: the most jobs that are ever pushed and not complete. `bytes_per_second` 0: no throttle. The thread runs on
  /// these processors; none: anywhere.
  CopyStream(StreamId id, size_t capacity, double bytes_per_second, std::unique_ptr<Mover> mover, const Processors& processors = {});
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  Ticket push(const CopyJob& job);
  bool complete(Ticket ticket);
  /// Returns when the ticket is complete, or with the reason why it never will be.
  Status wait(Ticket ticket);
  /// Drops queued work and ends every wait; any thread may call it.
  void interrupt();
  /// Drops queued work, waits for the pieces in flight, and returns when the thread is idle.
  void abandon();

  /// Only while no copy is in flight: starts a new record of spans, if `record`.
  void begin_step(Clock::time_point start, bool record);
  const std::vector<Span>& spans() const { return spans_; }

 private:
  /// A job in the ring: pushed, started as far as `next`, with `left` bytes not yet moved.
  struct Entry {
    CopyJob job;
    uint64_t next = 0, left = 0;
    Clock::time_point start{};
  };

  void work();
  /// Until nothing is queued or something failed; then nothing is under way.
  Status run_queue();
  bool start_piece();
  void settle(Ticket ticket, uint64_t bytes);
  void complete_in_order();
  Status hold_back(uint64_t bytes);
  Entry& entry(Ticket t) { return ring_[t % ring_.size()]; }

  const StreamId id_;
  const double bytes_per_second_;
  const std::unique_ptr<Mover> mover_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> ring_;  // ticket t at t mod its size
  Ticket pushed_ = 0, completed_ = 0;
  Status failure_;
  bool stop_ = false, idle_ = true;

  Ticket starting_ = 1;                              // the thread's own: the first job that is not wholly started
  std::vector<std::pair<Ticket, uint64_t>> pieces_;  // by tag: whose piece it is and its bytes; {0, 0}: free
  uint32_t under_way_ = 0;
  Clock::time_point link_free_{}, last_end_{}, step_start_{};
  bool record_ = false;
  std::vector<Span> spans_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace spillway
