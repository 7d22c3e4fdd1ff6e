// The fed values of a step, prepared in pinned memory during the step before. There are two fixed buffers for each copy from the
// source, or three if a step loads data of the next, so a replayed graph finds its inputs at the same addresses. A buffer that holds
// the right batch is not filled again: a GPU ends its step before a host has drawn one batch. Invariant: the buffers that step s
// reads are filled before ready(s) returns, and filled anew only after the end of step s.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/open_device.hpp"
#include "runtime/source.hpp"
#include "runtime/streams.hpp"

namespace spillway {

class Feeder {
 public:
  static Result<std::unique_ptr<Feeder>> open(const Tape& tape, OpenDevice& device);
  ~Feeder();

  /// False if the tape reads nothing from the source, or large values tile by tile: then a thread copies them.
  bool feeds() const { return bytes_ > 0; }
  /// The number of the buffer with a step's data.
  uint32_t parity(uint64_t step) const { return feeds() ? uint32_t(step % buffers_.size()) : 0; }
  const std::byte* at(uint32_t transfer, uint64_t step) const { return buffers_[parity(step)] + offsets_[transfer]; }

  /// Starts to fill the buffer of the first step.
  void begin(Source* source, uint64_t first_step, uint64_t last_step);
  /// Waits for all bytes that this step reads; from then on the next step's are on their way.
  Status ready(uint64_t step);
  /// Returns when no source is read any more; lets ready() return too.
  void end();
  /// Lets ready() return; any thread may call it.
  void interrupt();

 private:
  explicit Feeder(const Tape& tape) : tape_(tape) {}
  void work();
  Status fill(uint64_t step);
  Status refill(uint64_t step);
  /// The last step with data that a step reads.
  uint64_t read_in(uint64_t step) const { return std::min(last_, step + buffers_.size() - 2); }

  const Tape& tape_;
  std::vector<uint64_t> offsets_;  // by transfer
  uint64_t bytes_ = 0;             // of one buffer
  std::vector<std::byte*> buffers_;
  std::vector<uint64_t> held_;  // steps of this run; 0: none

  std::mutex mutex_;
  std::condition_variable changed_;
  Source* source_ = nullptr;
  uint64_t wanted_ = 0, filled_ = 0, last_ = 0;  // steps; the first are filled up to `filled_`
  Status failure_;
  bool busy_ = false, stop_ = false, quit_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace spillway
