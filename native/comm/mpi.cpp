// Ranks on MPI: only all-to-all and all-gather, so bits do not depend on MPI's order of additions. It is compiled against the MPI that
// provides mpi.h, and loaded at run time (runtime/communicators.cpp). Invariant: a waiting rank yields the processor and can be
// interrupted. Counts are 32 bits wide in MPI, so larger messages take several rounds.
#include <mpi.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <vector>

#include "comm/calls.hpp"
#include "comm/heartbeat.hpp"
#include "comm/leftovers.hpp"
#include "core/communicator.hpp"

namespace spillway {
namespace {

struct MpiRank : Communicator {
  MPI_Comm all = MPI_COMM_NULL;
  std::atomic<bool> interrupted{false};
  /// One for both ways; null with one rank.
  Heartbeat* heartbeat = nullptr;
};

MpiRank& of(Communicator* c) { return *static_cast<MpiRank*>(c); }

Code checked(int error, char* words) {
  if (error == MPI_SUCCESS) return Code::ok;
  char text[MPI_MAX_ERROR_STRING] = {};
  int n = 0;
  called([&] { return MPI_Error_string(error, text, &n); });
  std::snprintf(words, COMMUNICATOR_WORDS, "MPI: %s", text);
  return Code::device;
}

constexpr unsigned LOOKS = 100;
constexpr long SHORTEST_NS = 5'000, LONGEST_NS = 200'000;

/// MPI's own wait keeps a processor busy. This one polls, then sleeps, a little longer each time. A thread that yields without sleep
/// (sched_yield) waits for the whole time slice of every other thread, several times in each exchange. A thread that slept runs next.
Code finished(MpiRank& rank, MPI_Request* request, char* words) {
  // A thread's own: Linux otherwise adds fifty microseconds to every sleep.
  static thread_local const int exact = ::prctl(PR_SET_TIMERSLACK, 1000UL);
  static_cast<void>(exact);
  const double patience = rank.patience;
  timespec from{};
  for (unsigned looks = 0;; looks++) {
    int done = 0;
    if (const int error = called([&] { return MPI_Test(request, &done, MPI_STATUS_IGNORE); }); error != MPI_SUCCESS)
      return checked(error, words);
    if (done) return Code::ok;
    if (rank.interrupted) {
      std::snprintf(words, COMMUNICATOR_WORDS, "interrupted while waiting for other ranks");
      return Code::cancelled;
    }
    if (looks < LOOKS) continue;
    if (rank.heartbeat && looks % LOOKS == 0 && rank.heartbeat->silence(words)) return Code::device;
    if (looks == LOOKS) ::clock_gettime(CLOCK_MONOTONIC, &from);
    if (patience > 0 && looks % LOOKS == 0) {
      timespec now{};
      ::clock_gettime(CLOCK_MONOTONIC, &now);
      if (double(now.tv_sec - from.tv_sec) + 1e-9 * double(now.tv_nsec - from.tv_nsec) > patience) {
        std::snprintf(words, COMMUNICATOR_WORDS, SPILLWAY_WAITED_WORDS, rank.rank, patience);
        return Code::device;
      }
    }
    const timespec pause{0, std::min(LONGEST_NS, SHORTEST_NS + 500L * long(looks - LOOKS))};
    ::nanosleep(&pause, nullptr);
  }
}

/// Bytes of a part in one round.
constexpr uint64_t ROUND_BYTES = uint64_t(1) << 24;

Code mpi_all_to_all(Communicator* c, const void* from, const uint64_t* bounds, void* into, char* words) {
  MpiRank& rank = of(c);
  const uint64_t own = bounds[c->rank + 1] - bounds[c->rank];
  // Operators go piece by piece, and no piece is so large.
  if (bounds[c->size] > INT_MAX || own * c->size > INT_MAX) {
    std::snprintf(words, COMMUNICATOR_WORDS, "an exchange of %llu bytes is too large", static_cast<unsigned long long>(bounds[c->size]));
    return Code::illegal;
  }
  std::vector<int> counts(c->size), places(c->size), own_counts(c->size, int(own)), own_places(c->size);
  for (uint32_t r = 0; r < c->size; r++) {
    counts[r] = int(bounds[r + 1] - bounds[r]);
    places[r] = int(bounds[r]);
    own_places[r] = int(r * own);
  }
  MPI_Request request;
  const int error = called([&] {
    return MPI_Ialltoallv(from, counts.data(), places.data(), MPI_BYTE, into, own_counts.data(), own_places.data(), MPI_BYTE, rank.all,
                          &request);
  });
  return error == MPI_SUCCESS ? finished(rank, &request, words) : checked(error, words);
}

Code mpi_all_gather(Communicator* c, void* all, const uint64_t* bounds, char* words) {
  MpiRank& rank = of(c);
  if (bounds[c->size] <= INT_MAX) {
    std::vector<int> counts(c->size), places(c->size);
    for (uint32_t r = 0; r < c->size; r++) {
      counts[r] = int(bounds[r + 1] - bounds[r]);
      places[r] = int(bounds[r]);
    }
    MPI_Request request;
    const int error = called([&] {
      return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts.data(), places.data(), MPI_BYTE, rank.all, &request);
    });
    return error == MPI_SUCCESS ? finished(rank, &request, words) : checked(error, words);
  }
  // Each rank's part in turn, round by round.
  for (uint32_t r = 0; r < c->size; r++)
    for (uint64_t first = 0, part = bounds[r + 1] - bounds[r]; first < part; first += ROUND_BYTES) {
      MPI_Request request;
      const int error = called([&] {
        return MPI_Ibcast(static_cast<char*>(all) + bounds[r] + first, int(std::min(ROUND_BYTES, part - first)), MPI_BYTE, int(r), rank.all,
                          &request);
      });
      if (error != MPI_SUCCESS) return checked(error, words);
      if (const Code code = finished(rank, &request, words); code != Code::ok) return code;
    }
  return Code::ok;
}

constexpr int TRADE_TAG = 1;

/// Parts in rounds, all of them under way at once: messages between two ranks keep their order.
Code mpi_trade(Communicator* c, const Parcel* sends, uint32_t n_sends, const Parcel* takes, uint32_t n_takes, char* words) {
  MpiRank& rank = of(c);
  std::vector<MPI_Request> requests;
  const auto begin = [&](const Parcel& part, bool takes_it) {
    for (uint64_t first = 0; first < part.bytes; first += ROUND_BYTES) {
      char* const at = static_cast<char*>(part.data) + first;
      const int count = int(std::min(ROUND_BYTES, part.bytes - first));
      requests.emplace_back();
      const int error = called([&] {
        return takes_it ? MPI_Irecv(at, count, MPI_BYTE, int(part.rank), TRADE_TAG, rank.all, &requests.back())
                        : MPI_Isend(at, count, MPI_BYTE, int(part.rank), TRADE_TAG, rank.all, &requests.back());
      });
      if (error != MPI_SUCCESS) return checked(error, words);
    }
    return Code::ok;
  };
  for (uint32_t i = 0; i < n_takes; i++)
    if (const Code code = begin(takes[i], true); code != Code::ok) return code;
  for (uint32_t i = 0; i < n_sends; i++)
    if (const Code code = begin(sends[i], false); code != Code::ok) return code;
  for (MPI_Request& request : requests)
    if (const Code code = finished(rank, &request, words); code != Code::ok) return code;
  return Code::ok;
}

void free_way(Communicator* c) {
  if (!c) return;
  MpiRank& rank = of(c);
  if (rank.all != MPI_COMM_NULL) MPI_Comm_free(&rank.all);
  delete &rank;
}

void mpi_close(Communicator* c) {
  if (Heartbeat* const heartbeat = of(c).heartbeat) {
    heartbeat->end();
    delete heartbeat;
  }
  free_way(c->beside);
  free_way(c);
  int ended = 0;
  if (MPI_Finalized(&ended) == MPI_SUCCESS && !ended) MPI_Finalize();
}

constexpr Engine ENGINE{COMMUNICATOR_VERSION,
                        sizeof(Engine),
                        "mpi",
                        mpi_all_to_all,
                        mpi_all_gather,
                        mpi_trade,
                        [](Communicator* c) {
                          of(c).interrupted = true;
                          if (c->beside) of(c->beside).interrupted = true;
                        },
                        [](Communicator* c, int code) { MPI_Abort(of(c).all, code); },
                        mpi_close};

/// A way among all ranks; null where MPI refuses.
MpiRank* open_way(char* words) {
  auto* const rank = new MpiRank();
  int number = 0, size = 1;
  int error = MPI_Comm_dup(MPI_COMM_WORLD, &rank->all);
  if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(rank->all, MPI_ERRORS_RETURN);
  if (error == MPI_SUCCESS) error = MPI_Comm_rank(rank->all, &number);
  if (error == MPI_SUCCESS) error = MPI_Comm_size(rank->all, &size);
  rank->engine = &ENGINE;
  rank->rank = uint32_t(number);
  rank->size = uint32_t(size);
  if (checked(error, words) == Code::ok) return rank;
  free_way(rank);
  return nullptr;
}

/// A third way, for signs of life alone.
bool open_heartbeat(MpiRank& rank, char* words) {
  if (rank.size < 2) return true;
  MPI_Comm all = MPI_COMM_NULL;
  int error = MPI_Comm_dup(MPI_COMM_WORLD, &all);
  if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  if (checked(error, words) != Code::ok) return false;
  rank.heartbeat = of(rank.beside).heartbeat = new Heartbeat(all, rank.rank, rank.size);
  return true;
}

}  // namespace
}  // namespace spillway

extern "C" __attribute__((visibility("default"))) spillway::Communicator* spillway_open_communicator(uint32_t version, char* words) {
  using namespace spillway;
  if (version != COMMUNICATOR_VERSION) return nullptr;
  int is_open = 0, provided = 0;
  MPI_Initialized(&is_open);
  if (!is_open) remove_leftovers("/dev/shm");
  // The threads of a run call, and that of JavaScript before and after it, never two at once.
  if (!is_open && checked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), words) != Code::ok) return nullptr;
  if (!is_open && provided < MPI_THREAD_SERIALIZED) {
    std::snprintf(words, COMMUNICATOR_WORDS, "this MPI was built without thread support; MPI_THREAD_SERIALIZED is needed");
    return nullptr;
  }
  MpiRank* const rank = open_way(words);
  if (rank) rank->beside = open_way(words);
  if (rank && rank->beside && open_heartbeat(*rank, words)) return rank;
  if (rank) free_way(rank->beside);
  if (rank) free_way(rank);
  return nullptr;
}
