// Signs of life between processes: a thread of each rank sends one to the next rank every second. In: a communicator of MPI, a limit.
// Out: words that name the rank before this one if it sent none for `limit` seconds; two seconds later this thread ends all ranks.
// Invariant: time during which this process is stopped does not count. After end(), no message is in flight.
// Worked example, 3 ranks, rank 1 is stopped: rank 2 reports it, and MPI_Abort ends rank 0, too.
#pragma once
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "comm/calls.hpp"
#include "core/communicator.hpp"

namespace spillway {

/// Seconds without a sign of life after which a rank is taken for stopped; 0: it never is.
inline double silence_allowed() {
  constexpr double USUAL = 45;
  const char* const asked = std::getenv("SPILLWAY_SILENCE");
  return asked && *asked ? std::max(0.0, std::atof(asked)) : USUAL;
}

class Heartbeat {
 public:
  /// `all` belongs to the heartbeat from here on.
  Heartbeat(MPI_Comm all, uint32_t rank, uint32_t ranks)
      : all_(all), next_(int((rank + 1) % ranks)), before_(int((rank + ranks - 1) % ranks)), ranks_(ranks), limit_(silence_allowed()) {
    own_.process = ::getpid();
    ::gethostname(own_.machine, sizeof own_.machine - 1);
    thread_ = std::thread([this] { run(); });
  }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Copies the words about a silent rank. Any thread may ask.
  bool silence(char* words) {
    if (!silent_) return false;
    std::snprintf(words, COMMUNICATOR_WORDS, "%s", words_);
    told_ = true;
    return true;
  }

  /// Returns after all ranks have called it. The signs of life go on until then.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    thread_.join();
    MPI_Comm_free(&all_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double BEAT_SECONDS = 1, ENDING_SECONDS = 0.005;
  /// For the words about a silent rank: to reach a thread that waits, and from there the user.
  static constexpr int TELLING_SECONDS = 2, LEAVING_SECONDS = 8;

  struct Beat {
    int64_t process = 0;
    char machine[64] = {};
    bool last = false;
  };

  static bool done(MPI_Request& request) {
    int is = 0;
    return called([&] { return MPI_Test(&request, &is, MPI_STATUS_IGNORE); }) == MPI_SUCCESS && is;
  }
  void listen() {
    called([&] { return MPI_Irecv(&heard_, sizeof heard_, MPI_BYTE, before_, 0, all_, &hearing_); });
  }
  void send() {
    sent_ = own_;
    called([&] { return MPI_Isend(&sent_, sizeof sent_, MPI_BYTE, next_, 0, all_, &sending_); });
  }

  /// Receives the beats that have arrived. Returns true if there was one.
  bool hear() {
    bool any = false;
    while (!known_.last && done(hearing_)) {
      any = true;
      known_ = heard_;
      if (!known_.last) listen();
    }
    return any;
  }

  /// All ranks are about to end once the barrier is through; then each sends its last beat.
  bool all_end() {
    if (is_through_) return true;
    if (gathering_ == MPI_REQUEST_NULL) called([&] { return MPI_Ibarrier(all_, &gathering_); });
    return is_through_ = done(gathering_);
  }

  void run() {
    listen();
    send();
    double silent = 0, since_sent = 0;
    for (Clock::time_point last = Clock::now();;) {
      const double pause = ending_ ? ENDING_SECONDS : BEAT_SECONDS;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return ending_ && pause > ENDING_SECONDS; });
      }
      const Clock::time_point now = Clock::now();
      const double passed = std::min(2 * BEAT_SECONDS, std::chrono::duration<double>(now - last).count());
      last = now;
      silent = hear() ? 0 : silent + passed;
      since_sent += passed;
      if (!own_.last && done(sending_)) {
        own_.last = ending_ && all_end();
        if (own_.last || since_sent >= BEAT_SECONDS) {
          send();
          since_sent = 0;
        }
      }
      if (own_.last && known_.last && done(sending_)) return;
      if (limit_ > 0 && silent > limit_ && !known_.last) leave();
    }
  }

  /// Lets a thread that waits for other ranks report the silent one; reports it here if none does. Then ends all ranks.
  void leave() {
    if (known_.process)
      std::snprintf(words_, sizeof words_,
                    "rank %d of %u (process %lld on %s) has given no sign of life for %.0f s: it is stopped, or its machine hangs "
                    "(SPILLWAY_SILENCE=SECONDS sets a longer wait, 0 none)",
                    before_, ranks_, static_cast<long long>(known_.process), known_.machine, limit_);
    else
      std::snprintf(words_, sizeof words_, "rank %d of %u gave no sign of life within %.0f s of its start", before_, ranks_, limit_);
    silent_ = true;
    if (!ending_) std::this_thread::sleep_for(std::chrono::seconds(TELLING_SECONDS));
    if (told_)
      std::this_thread::sleep_for(std::chrono::seconds(LEAVING_SECONDS));
    else
      std::fprintf(stderr, "spillway: %s\n", words_);
    std::fflush(stderr);
    MPI_Abort(all_, 1);
    std::_Exit(1);
  }

  MPI_Comm all_;
  int next_, before_;
  uint32_t ranks_;
  double limit_;
  Beat own_, sent_, heard_, known_;
  MPI_Request sending_ = MPI_REQUEST_NULL, hearing_ = MPI_REQUEST_NULL, gathering_ = MPI_REQUEST_NULL;
  bool is_through_ = false;
  char words_[COMMUNICATOR_WORDS] = {};
  std::atomic<bool> ending_{false}, silent_{false}, told_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace spillway
