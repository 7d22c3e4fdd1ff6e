// A tape on a device: its memory, its weights by name, its runs. This is the whole interface of the addon and the tools. In:
// untrusted tape bytes. Out: weights and state between runs, metrics of runs. Invariant: weights are read and written only
// between runs; after an interrupted step, the session can only be closed.
#pragma once
#include <optional>

#include "plan/reader.hpp"
#include "runtime/devices.hpp"
#include "runtime/interpreter.hpp"

namespace spillway {

struct SessionOptions {
  const Device* device = nullptr;
  std::string spill_directory = {};  // empty: the lower tier is RAM
  /// The most host memory of the lower tier; the spill directory takes the rest. Default: all bytes that a device's lanes reach,
  /// pinned; none if it has no lanes.
  std::optional<uint64_t> host_bytes = {};
  Precision precision = Precision::fp32;
  int threads = 0;  // 0: all cores
  Throttle throttle = {};
  OpenRequests open_requests = spillway::open_requests;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(std::span<const std::byte> tape, const SessionOptions& options);

  const Tape& tape() const { return tape_; }
  /// NONE when there is no such binding.
  uint32_t find(std::string_view name) const;

  /// Fills a parameter or state as its distribution says, keyed by seed and name only.
  Status init(uint32_t binding, uint64_t seed) { return init(binding, seed, tape_.name(tape_.bindings[binding]), 0); }
  /// Fills a part of the parameter `of` in the same way: the part's elements are those from `first` on.
  Status init(uint32_t binding, uint64_t seed, std::string_view of, uint64_t first);
  /// Bytes of a parameter or state; refused for anything else.
  Result<uint64_t> size(uint32_t binding) const;
  /// Copies a parameter or state out of the device or its home in the lower tier, or into it: `size()` bytes.
  Status read(uint32_t binding, std::span<std::byte> into);
  Status write(uint32_t binding, std::span<const std::byte> from);

  /// A run is two calls: begin() checks and claims the session, finish() runs and gives it back, on any thread.
  Status begin(const RunOptions& options);
  RunMetrics finish();
  /// At once: also ends waits for other ranks.
  void stop(Stop how);
  bool running() const { return running_; }

 private:
  explicit Session(Tape tape) : tape_(std::move(tape)) {}
  Status open_tier(const SessionOptions& options);
  Status check_idle() const;
  Status check_persistent(uint32_t binding, uint64_t bytes) const;
  std::byte* address(uint32_t binding) const;
  /// Bytes of the lower tier, read or written between steps.
  Status with_home(uint64_t home, std::byte* at, uint64_t bytes, bool write);

  const Tape tape_;
  int threads_ = 1;
  std::optional<OpenDevice> device_;
  std::unique_ptr<Pages> pages_;
  LowerTier tier_;
  std::optional<Program> program_;
  std::unique_ptr<Copies> copies_;
  RunOptions options_;
  std::atomic<bool> running_{false}, torn_{false};
  std::atomic<Communicator*> communicator_{nullptr};  // of the run at hand
  std::unique_ptr<Interpreter> interpreter_;          // last: it uses the others
};

}  // namespace spillway
