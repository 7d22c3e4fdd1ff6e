// The measurements of a run. Seconds in spans and samples count from the start of their step.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "runtime/communicators.hpp"
#include "runtime/device.hpp"
#include "runtime/finite.hpp"

namespace spillway {

enum class StreamId : uint32_t { compute, out, in, ranks };

/// One call (index: the call; so on the lane of exchanges) or copy (index: the transfer).
struct Span {
  StreamId stream;
  uint32_t instruction, index;
  double start, end;
};

/// The number of held pages from this time on.
struct MemorySample {
  double seconds;
  uint64_t pages;
};

/// The last step of a run.
struct Timeline {
  std::vector<Span> spans;
  std::vector<MemorySample> memory;
};

struct StepMetrics {
  double seconds = 0, loss = 0;
  double stall_memory_seconds = 0, stall_data_seconds = 0;
  double stall_feed_seconds = 0;   // of those for data, the waits for the source
  double stall_ranks_seconds = 0;  // waits for exchanges beside computing
  double beside_seconds = 0;       // what these took
  double kernel_seconds = 0, recompute_seconds = 0;
  double flops = 0, skipped_flops = 0;  // planned arithmetic of the calls, and the part of it that was skipped
  uint64_t bytes_out = 0, bytes_in = 0, bytes_fed = 0, bytes_handed = 0;
};

struct RunMetrics {
  Status status;                           // why the run ended early, if it failed
  bool cancelled = false;                  // it ended early because it was told to
  bool torn = false;                       // it ended within a step: weights may be half updated
  std::vector<StepMetrics> steps;          // those that ran to their end
  std::vector<double> seconds_by_kind;     // kernel time of the whole run, by wire number
  std::vector<double> quiet_call_seconds;  // by call, of the quickest warm step that tells them and in whose way nothing else ran; empty
                                           // where there was none
  uint64_t arena_peak_bytes = 0, arena_file_bytes = 0, disk_bytes = 0;
  Accord accord = Accord::go_on;              // what the ranks agreed on before the step that did not come
  uint64_t sent_bytes = 0;                    // to other ranks, by operators
  std::optional<DeviceMemory> device_memory;  // where a driver counts it
  std::string without_graphs;                 // why steps that the device could keep as graphs ran instruction by instruction
  std::optional<NotFinite> not_finite;        // the first that a search met; it ended the run
  Timeline timeline;
};

/// An event of a run in progress.
struct Progress {
  enum class Phase : uint32_t { segment, step } phase = Phase::segment;
  uint64_t step = 0;
  uint32_t segment = 0, tile = 0;
  double loss = 0, seconds = 0;  // of the step that just ended
};

}  // namespace spillway
