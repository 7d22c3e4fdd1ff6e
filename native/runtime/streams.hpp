// A copy stream: a thread that runs copies one after the other, as fast as they go or no faster than a given link.
// In: jobs, pushed by the interpreter. Out: tickets that it can wait for; a ticket is complete when its copy and all before it are.
// Invariant: nothing is allocated once the stream runs; after a failure or abandon() no further copy starts and every wait returns.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/clock.hpp"
#include "runtime/metrics.hpp"

namespace spillway {

/// A job is moved in pieces of this size.
constexpr uint64_t COPY_PIECE_BYTES = uint64_t(8) << 20;

struct CopyJob {
  uint32_t transfer = 0, instruction = 0;
  uint64_t bytes = 0, step = 0;
};

/// The status of whatever ends because it was told to.
inline Status cancelled() { return Status::error("cancelled"); }
inline bool is_cancelled(const Status& s) { return s.message == "cancelled"; }

class CopyStream {
 public:
  /// Moves bytes [lo, hi) of the job.
  using Move = std::function<Status(const CopyJob&, uint64_t lo, uint64_t hi)>;
  using Ticket = uint64_t;

  /// `capacity`: the most jobs that are ever pushed and not complete. `bytes_per_second` 0: no throttle.
  CopyStream(StreamId id, size_t capacity, double bytes_per_second, Move move);
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  Ticket push(const CopyJob& job);
  bool complete(Ticket ticket);
  /// Returns when the ticket is complete, or with the reason why it never will be.
  Status wait(Ticket ticket);
  /// Drops what is queued and lets every wait return; any thread may call it.
  void interrupt();
  /// Drops what is queued, ends the running copy after its current piece, and returns when the thread is idle.
  void abandon();

  /// Only while no copy is in flight: starts a new record of spans, if `record`.
  void begin_step(Clock::time_point start, bool record);
  const std::vector<Span>& spans() const { return spans_; }

 private:
  void work();
  Status run_job(const CopyJob& job);
  Status hold_back(uint64_t bytes);

  const StreamId id_;
  const double bytes_per_second_;
  const Move move_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CopyJob> ring_;
  Ticket pushed_ = 0, completed_ = 0;
  Status failure_;
  bool stop_ = false, idle_ = true;

  Clock::time_point link_free_{}, step_start_{};
  bool record_ = false;
  std::vector<Span> spans_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace spillway
