// How long a call takes in a step: its operands lie where the caches have forgotten them, its threads are those of a run.
// In: a call without data. Out: seconds, and whether nothing else ran in the way of those that were counted.
// Invariant: the memory that it measures in is kept for the next call until forget_measuring(), which belongs before a session.
#pragma once
#include "runtime/single_call.hpp"

namespace spillway {

/// On any device: cold where it computes in the memory of the host, by repeated runs on an asynchronous one.
Result<Measured> measure_call(const Device& device, const KernelCall& call, const SingleOptions& options = {});
void forget_measuring();

}  // namespace spillway
