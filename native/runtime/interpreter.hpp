// Runs a checked tape step after step. In: program, pages, tier, source. Out: metrics; progress as it goes.
// Invariant: nothing is allocated or mapped between the first and the last instruction of a step; when run() returns,
// no copy is in flight.
#pragma once
#include <atomic>
#include <functional>
#include <optional>

#include "runtime/program.hpp"
#include "runtime/source.hpp"
#include "runtime/streams.hpp"
#include "runtime/tier.hpp"

namespace spillway {

/// How a running step is told to end: after the instruction at hand, or when it is complete.
enum class Stop : uint32_t { none, after_step, at_once };

/// Bytes per second of an imitated link; 0: as fast as it goes.
struct Throttle { double out = 0, in = 0; };

struct RunOptions {
  uint64_t steps = 1, first_step = 1, seed = 0;
  double lr_scale = 1;
  Source* source = nullptr;
  std::function<void(const Progress&)> progress = {};
  bool timeline = false;
};

class Interpreter {
 public:
  Interpreter(const Tape& tape, Program& program, Pages& pages, Tier& tier, Throttle throttle);

  /// Forgets an earlier stop(); before run(), on the thread that may call stop().
  void arm() { stop_ = Stop::none; }
  RunMetrics run(const RunOptions& options);
  /// Any thread may call it while run() runs.
  void stop(Stop how);

 private:
  struct Ticket { CopyStream* stream = nullptr; CopyStream::Ticket number = 0; };

  Status run_step(const RunOptions& options, StepMetrics& metrics);
  void collect(RunMetrics& run) const;
  Status execute(uint32_t index, const RunOptions& options, StepMetrics& metrics);
  Status call(uint32_t index, uint32_t call, StepMetrics& metrics);
  Status wait(uint32_t event, uint32_t cause, StepMetrics& metrics);
  void copy(uint32_t index, CopyStream& stream, StepMetrics& metrics);
  void hold(uint32_t residency, bool acquire);
  void mark(const InstrRecord& instr, const RunOptions& options);
  Status move_in(const CopyJob& job, uint64_t lo, uint64_t hi);
  Status move_out(const CopyJob& job, uint64_t lo, uint64_t hi);
  double read_loss(uint32_t instruction) const;

  const Tape& tape_;
  Program& program_;
  Pages& pages_;
  Tier& tier_;
  Source* source_ = nullptr;
  std::vector<std::pair<uint32_t, uint32_t>> losses_;  // instruction that completes it, view; in order
  std::vector<Ticket> tickets_;                        // by event
  std::vector<double> seconds_by_kind_;
  StepContext step_;
  std::atomic<Stop> stop_{Stop::none};
  Clock::time_point step_start_{}, last_mark_{};
  bool record_ = false;
  Timeline timeline_;
  std::optional<CopyStream> out_, in_;                 // last: their threads use the others
};

}  // namespace spillway
