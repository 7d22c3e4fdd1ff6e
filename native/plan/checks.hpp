// The reader's passes, in order; each takes the tape so far and returns its first error. Invariant: a pass may
// index with everything that earlier passes have checked, and with nothing else.
#pragma once
#include "core/result.hpp"
#include "plan/page_map.hpp"
#include "plan/tape.hpp"

namespace spillway {

/// Buffers, mappings, residencies, views, transfers, bindings: each record by itself. (After it: PageMap::of.)
Status check_records(const Tape& tape);
/// Calls and their operands against the op table.
Status check_calls(const Tape& tape);
/// Weights and state lie in pages that are held for ever; each loss is written.
Status check_bindings_held(const Tape& tape, const PageMap& map);
/// One abstract run of the instruction list: ownership, residency, copies in flight, events, budget, exact peak.
Status check_run(const Tape& tape, const PageMap& map);

}  // namespace spillway
