// The numbers of a library's ways: its choices by rank, those that repeat bit for bit and those that need not (loose).
// In: a way's number. Out: the rank. Invariant: rank 0 of those that repeat is way 0.
#pragma once
#include <cstdint>

namespace spillway::cuda {

/// Ways are a library's ranks: those that repeat bit for bit from 0, the loose ones from here on.
constexpr uint32_t FIRST_LOOSE = 16;
/// The numbers of choices of each kind that are worth an engine.
constexpr uint32_t MOST_REPEATING = 4, MOST_LOOSE = 3;

struct Rank {
  uint32_t rank;
  bool loose;
};
constexpr Rank rank_of(uint32_t way) { return way < FIRST_LOOSE ? Rank{way, false} : Rank{way - FIRST_LOOSE, true}; }

}  // namespace spillway::cuda
