// Runs a checked tape step after step, on any device. In: program, pages, copies, source. Out: metrics, and progress during
// the run. If the device has graphs, a step is split at the instructions of a host thread; the parts between are captured
// once and replayed. Invariant: a step allocates and maps nothing; when run() returns, nothing is in flight.
#pragma once
#include <atomic>
#include <functional>

#include "runtime/communicators.hpp"
#include "runtime/copies.hpp"
#include "runtime/finite.hpp"
#include "runtime/metrics.hpp"
#include "runtime/outside.hpp"
#include "runtime/program.hpp"
#include "runtime/quiet_steps.hpp"

namespace spillway {

/// How a running step is told to end: after the instruction at hand, or when it is complete.
enum class Stop : uint32_t { none, after_step, at_once };

struct RunOptions {
  uint64_t steps = 1, first_step = 1, seed = 0;
  /// Factors of the plan's learning rates, for each step of the run; empty: the plan's rates.
  std::vector<double> rates = {};
  Source* source = nullptr;
  Sink* sink = nullptr;  // where the tape has outputs
  std::function<void(const Progress&)> progress = {};
  bool timeline = false;
  /// From this step on, each call's operands are checked; a value that is not finite ends the run. 0: no
  /// checks.
  uint64_t search_from = 0;
  /// For one of several ranks: before each step they agree to run it.
  Communicator* communicator = nullptr;
  /// Seconds that it waits for them at once; 0: ten minutes, or twenty times as long as the longest step so far.
  double patience = 0;
};

class Interpreter {
 public:
  static Result<std::unique_ptr<Interpreter>> open(const Tape& tape, Program& program, OpenDevice& device, Pages& pages, Copies& copies);

  /// Forgets an earlier stop(); before run(), on the thread that may call stop().
  void arm() { stop_ = Stop::none; }
  RunMetrics run(const RunOptions& options);
  /// Any thread may call it while run() runs.
  void stop(Stop how);

 private:
  /// A thread that carries exchanges of one way beside computing.
  struct ExchangeLane {
    std::vector<double> seconds_by_kind;  // of the step at hand; the thread's own until all of it is waited for
    std::optional<CopyStream> stream;
  };
  /// Instructions [from, to): one graph for each buffer of inputs, or, where a thread carries them, none. `moved`: its bytes; `sent`: to
  /// other ranks.
  struct Part {
    uint32_t from, to;
    bool replayed;
    uint32_t graph[3];
    StepMetrics moved;
    uint64_t sent;
  };

  Interpreter(const Tape& tape, Program& program, OpenDevice& device, Pages& pages, Copies& copies);
  Result<Accord> accord(const RunOptions& options) const;
  Status run_step(const RunOptions& options, bool first, StepMetrics& metrics);
  Status run_instructions(const RunOptions& options, StepMetrics& metrics);
  Status run_parts(const RunOptions& options, StepMetrics& metrics);
  Status replay(const Part& part, uint32_t parity, const RunOptions& options, StepMetrics& metrics);
  void split();
  Status capture(const RunOptions& options);
  Status execute(uint32_t index, const RunOptions& options, StepMetrics& metrics);
  Status call(uint32_t index, uint32_t call, StepMetrics& metrics);
  Status call_timed(uint32_t index, uint32_t call, StepMetrics& metrics);
  Status call_searched(uint32_t call);
  Status met(const Result<std::optional<NotFinite>>& found);
  Status wait(uint32_t index, const InstrRecord& instr, StepMetrics& metrics);
  Status copy(uint32_t index, StepMetrics& metrics);
  Status load_first(StepMetrics& metrics);
  bool is_unread(const InstrRecord& instr) const;
  Status exchange(uint32_t index, const InstrRecord& instr);
  Status exchange_on_lane(uint32_t index, const InstrRecord& instr);
  Status wait_exchange(uint32_t index, uint32_t event, StepMetrics& metrics);
  Status join_exchanges();
  Status join_early();
  void open_exchanges();
  std::unique_ptr<ExchangeLane> exchange_lane(bool early);
  ExchangeLane* lane_of(uint32_t call) const;
  Status fetch_losses(uint32_t instruction);
  void hold(uint32_t residency, bool acquire);
  void mark(const InstrRecord& instr, const RunOptions& options);
  Status end_step(StepMetrics& metrics);
  void read_stamps(StepMetrics& metrics);
  void count(const CallRecord& c, uint32_t index, uint32_t call, double start, double end, StepMetrics& metrics);
  void count_beside(const InstrRecord& instr, uint32_t index, double start, double end, StepMetrics& metrics);
  double sum_of_losses() const;
  void collect(RunMetrics& run);

  const Tape& tape_;
  Program& program_;
  OpenDevice& device_;
  Pages& pages_;
  Copies& copies_;
  std::vector<std::pair<uint32_t, uint32_t>> losses_;  // instruction that completes it, view; in order
  std::byte* fetched_ = nullptr;                       // the losses' values, a double's room each; pinned
  std::vector<double> seconds_by_kind_;
  QuietSteps quiet_steps_;
  std::optional<Masks> masks_;          // of a masked network
  double skipped_ = 0;                  // the share of the call at hand
  Outside outside_;                     // of the call at hand
  bool warm_ = false;                   // a step has run: the next is like all others
  std::optional<FiniteSearch> search_;  // of the step at hand
  std::optional<NotFinite> not_finite_;
  std::vector<Part> parts_;
  bool captured_[3] = {false, false, false};
  std::string without_graphs_;
  uint32_t stamped_steps_ = 0;
  StepContext step_;
  std::atomic<Stop> stop_{Stop::none};
  Clock::time_point step_start_{}, last_mark_{};
  bool record_ = false, stamped_ = false, replaying_ = false, capturing_ = false;
  bool last_ = false;                   // no step of this run follows
  std::vector<uint32_t> copies_ahead_;  // instructions that fill pages for the next step
  std::vector<bool> ahead_;             // by event: of such a copy
  Timeline timeline_;
  std::optional<uint32_t> early_;  // the event of what was begun last on the first way; the next one in its turn there waits for it
  std::vector<CopyStream::Ticket> exchange_of_;  // by event
  std::vector<uint32_t> exchange_call_;          // by event
  std::vector<uint32_t> exchange_part_;          // by event: what was captured as one with it; NONE: nothing yet
  uint32_t part_ = 0;
  std::unique_ptr<ExchangeLane> begun_, beside_;  // on the first way and on the second; last: their threads use the others
};

}  // namespace spillway
