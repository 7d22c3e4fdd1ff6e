// Operations among the processes (ranks) of one training, as a table of functions that an engine fills in: MPI, or threads of one process.
// In: bytes of each rank. Out: the same bytes at all ranks, in the order of ranks. Invariant: sums are in that order, so results do not
// depend on the engine; all ranks call the same functions in the same order; a failing function gives the reason in `words`. Worked
// example, 2 ranks, all_to_all of [a0 a1] and [b0 b1]: rank 0 then holds [a0 b0], rank 1 [a1 b1].
#pragma once
#include <atomic>
#include <cstdint>

#include "core/result.hpp"

namespace spillway {

constexpr uint32_t COMMUNICATOR_VERSION = 3;
constexpr uint32_t MOST_RANKS = 1024;
constexpr uint32_t COMMUNICATOR_WORDS = 1024;
/// A rank waited in vain: its number, and the seconds.
#define SPILLWAY_WAITED_WORDS \
  "rank %u waited %.0f s for other ranks: one of them hangs or is much slower (SPILLWAY_PATIENCE=SECONDS sets a longer wait)"
/// The entry of a plugin. It opens the communicator of this process; on failure it returns null,
/// with words.
#define SPILLWAY_COMMUNICATOR_ENTRY "spillway_open_communicator"

struct Communicator;

/// Bytes that go to a rank, or come from it.
struct Parcel {
  uint32_t rank = 0;
  void* data = nullptr;
  uint64_t bytes = 0;
};

struct Engine {
  uint32_t version, bytes;  // COMMUNICATOR_VERSION, sizeof(Engine)
  const char* name;
  /// Parcel i, bytes [bounds[i], bounds[i+1]), of `from` goes to rank i; its own part of all ranks lies behind one another in `into`.
  Code (*all_to_all)(Communicator*, const void* from, const uint64_t* bounds, void* into, char* words);
  /// Every rank has its part of `all` in place, and afterwards those of the others.
  Code (*all_gather)(Communicator*, void* all, const uint64_t* bounds, char* words);
  /// Each rank sends parts to some ranks and takes parts from some; of two ranks, the first that one sends is the first that the other
  /// takes.
  Code (*trade)(Communicator*, const Parcel* sends, uint32_t n_sends, const Parcel* takes, uint32_t n_takes, char* words);
  /// Every wait for other ranks, on either way, returns cancelled. Any thread may call it.
  void (*interrupt)(Communicator*);
  /// Ends all ranks, as far as the engine can.
  void (*abort)(Communicator*, int code);
  /// The last call, for both ways: all ranks have done their part.
  void (*close)(Communicator*);
};

/// One rank's. Engines derive theirs from it.
struct Communicator {
  const Engine* engine = nullptr;
  uint32_t rank = 0, size = 1;
  /// How many seconds anyone waits for other ranks before that is an error; 0: for ever. While steps run: all ranks do the same then.
  std::atomic<double> patience{0};
  /// Bytes that operators have sent to other ranks.
  uint64_t sent_bytes = 0;
  /// The second way of the same rank, for exchanges during compute. A thread of its own makes the calls, in the same order at all ranks.
  Communicator* beside = nullptr;
};

using OpenCommunicator = Communicator* (*)(uint32_t version, char* words);

}  // namespace spillway
