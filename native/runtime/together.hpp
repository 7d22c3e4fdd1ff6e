// Neighbouring calls that a device takes in one go: updates of many parameters, whose launches would take longer than their work.
// In: a checked tape, and how many calls of a kind the device takes. Out: groups of calls, by instruction. Invariant: nothing but
// the counting of pages stands between the calls of a group, and no one of them touches what another writes.
// Worked example: CALL sgd, RELEASE, CALL sgd, CALL sgd with another rate: one group, of the first two.
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
