// One kernel on operands in host memory, on any device: its ways, its results, its seconds. Invariant: an operand's
// bytes, with the gaps between its rows, come back as the kernel left them; two operands at one address are one operand
// for the device too.
#pragma once
#include "runtime/open_device.hpp"

namespace spillway {

struct SingleOptions {
  Precision precision = Precision::fp32;
  int threads = 0;    // 0: all cores
  int in_place = -1;  // of a call that is measured: the input whose bytes its first output takes over
};

struct Measured {
  double seconds = 0;
  /// Nothing else ran in its way: worth keeping.
  bool quiet = true;
};

/// The ways of a call, at most `most`; an error if it is not legal. The call's operands need no data.
Result<std::vector<Way>> single_ways(const Device& device, const KernelCall& call, uint32_t most, const SingleOptions& options = {});
/// The call has data on the host.
Status single_run(const Device& device, const KernelCall& call, const SingleOptions& options = {});
/// How long a call takes on an asynchronous device, on made-up values (the operands need no data): the least of several runs
/// after a first one.
Result<Measured> measure_repeated(const Device& device, const KernelCall& call, const SingleOptions& options = {});

/// The seconds of a call that meets other ranks, and of its own part.
struct MeasuredAmong {
  double seconds = 0, alone_seconds = 0;
};
/// All ranks come here at once, with the same call: the median of several runs, each as long as it was for the slowest of them, and alike
/// at all.
Result<MeasuredAmong> measure_among(const Device& device, const KernelCall& call, Communicator& ranks, const SingleOptions& options = {});

/// Bytes from the first element of a view to the end of its last.
uint64_t span_bytes(const View& v);

}  // namespace spillway
