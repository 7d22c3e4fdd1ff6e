// In: untrusted bytes. Out: a checked Tape, or the reason for refusing it. Invariant: for any bytes, nothing outside them is
// read and nothing crashes; no tape with a wrong checksum passes.
#pragma once
#include <cstddef>
#include <span>

#include "core/result.hpp"
#include "plan/tape.hpp"

namespace spillway {

/// Runs every check that docs/internals/tape.md lists.
Result<Tape> read_tape(std::span<const std::byte> bytes);

/// FNV-1a 64, as the header's checksum is taken over everything from offset 32 on.
uint64_t tape_checksum(std::span<const std::byte> bytes);

}  // namespace spillway
