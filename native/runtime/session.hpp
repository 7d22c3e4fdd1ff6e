// A tape on a device: its memory, its weights by name, its runs. The whole of what the addon and the tools use.
// In: untrusted tape bytes. Out: weights and state between runs, metrics of runs.
// Invariant: weights are read and written only between runs; after a step that was cut short the session can only be closed.
#pragma once
#include "plan/reader.hpp"
#include "runtime/interpreter.hpp"

namespace spillway {

struct SessionOptions {
  const Device* device = nullptr;
  std::string spill_directory = {};  // empty: the lower tier is RAM
  int threads = 0;              // 0: all cores
  Throttle throttle = {};
  FileCalls file_calls = SYSTEM_FILE_CALLS;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(std::span<const std::byte> tape, const SessionOptions& options);

  const Tape& tape() const { return tape_; }
  /// NONE when there is no such binding.
  uint32_t find(std::string_view name) const;

  /// Fills a parameter or state as its distribution says, keyed by seed and name only.
  Status init(uint32_t binding, uint64_t seed);
  /// The bytes of a parameter or state, until the next run.
  Result<std::span<std::byte>> bytes(uint32_t binding);

  /// A run is two calls: begin() checks and claims the session, finish() runs and gives it back, on any thread.
  Status begin(const RunOptions& options);
  RunMetrics finish();
  void stop(Stop how) { interpreter_->stop(how); }
  bool running() const { return running_; }

 private:
  explicit Session(Tape tape) : tape_(std::move(tape)) {}
  Status check_idle() const;

  const Tape tape_;
  const Device* device_ = nullptr;
  int threads_ = 1;
  std::unique_ptr<Pages> pages_;
  std::unique_ptr<Tier> tier_;
  std::optional<Program> program_;
  RunOptions options_;
  std::atomic<bool> running_{false}, torn_{false};
  std::optional<Interpreter> interpreter_;  // last: its threads use the others
};

}  // namespace spillway
