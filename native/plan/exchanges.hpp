// What a tape's calls exchange with other ranks, and on which of their two ways. In: a checked tape. Worked example: statistics of a norm
// go on the first way, in their turn or begun early; a bucket of gradients on the second, beside computing.
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
