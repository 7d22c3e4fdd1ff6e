// One kernel on operands in host memory, on any device: how much workspace it wants, what it computes, how long it takes.
// Invariant: an operand's bytes, gaps between its rows included, come back as the kernel left them; two operands at one
// address are one operand for the device too.
#pragma once
#include "runtime/open_device.hpp"

namespace spillway {

struct SingleOptions {
  Precision precision = Precision::full;
  int threads = 0;    // 0: all cores
  int in_place = -1;  // of a call that is measured: the input whose bytes its first output takes over
};

struct Measured {
  double seconds = 0;
  /// Nothing else ran in its way: worth keeping.
  bool quiet = true;
};

/// Bytes of scratch; -1 when the shapes are not legal. The call's operands need no data.
Result<int64_t> single_workspace(const Device& device, const KernelCall& call, const SingleOptions& options = {});
/// The call has data on the host, and workspace where the device computes there.
Status single_run(const Device& device, const KernelCall& call, const SingleOptions& options = {});
/// How long a call takes on an asynchronous device, on made-up values (the operands need no data): the least of several runs
/// after a first one.
Result<Measured> measure_repeated(const Device& device, const KernelCall& call, const SingleOptions& options = {});

/// Bytes from the first element of a view to the end of its last.
uint64_t span_bytes(const View& v);

}  // namespace spillway
