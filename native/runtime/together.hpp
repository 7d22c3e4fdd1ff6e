// Neighbouring calls that a device runs at once: updates of many parameters, whose launches would take longer than their work.
// In: a checked tape, and the number of calls of a kind for one launch. Out: groups of calls, by instruction. Invariant: only the
// counting of pages lies between the calls of a group, and no call touches a result of another. Worked example: CALL sgd,
// RELEASE, CALL sgd, CALL sgd with another rate: one group, of the first two.
#pragma once
#include <vector>

#include "plan/tape.hpp"
#include "runtime/device.hpp"

namespace spillway {

struct CallGroup {
  uint32_t first_instruction = 0;
  std::vector<uint32_t> instructions, calls;
};

std::vector<CallGroup> calls_together(const Tape& tape, const Device& device);

}  // namespace spillway
