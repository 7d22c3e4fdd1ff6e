// The exchanges of a tape's calls with other ranks, and their way. In: a checked tape. Worked example: statistics of a norm use the first
// way, in order or begun early; a bucket of gradients uses the second, during compute.
#pragma once
#include "ops/collective.hpp"
#include "plan/tape.hpp"

namespace spillway {

/// On the second way: never in its turn.
inline bool goes_beside(const Tape& tape, const CallRecord& c) { return ops::goes_beside(c.kind, tape.attrs.data() + c.first_attr); }
/// On the first way, in its turn or, where the plan says so, begun early.
inline bool may_begin_early(const Tape& tape, const CallRecord& c) {
  return ops::may_begin_early(c.kind, tape.attrs.data() + c.first_attr);
}
inline bool is_on_first_way(const Tape& tape, const CallRecord& c) { return ops::meets_ranks(c.kind) && !goes_beside(tape, c); }

}  // namespace spillway
