// Threads as ranks: each publishes the address of its bytes, all wait for one another, each copies its part, and all wait again before
// any of them reuses its bytes. A plugin is loaded with global symbols: OpenMPI's own parts look for them there.
#include "runtime/communicators.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace spillway {
namespace {

class Meeting {
 public:
  explicit Meeting(uint32_t ranks) : at_(ranks), size_(ranks) {}

  /// Bytes that a rank shows the others until its next wait.
  void show(uint32_t rank, const void* bytes) {
    const std::lock_guard lock(mutex_);
    at_[rank] = static_cast<const std::byte*>(bytes);
  }
  const std::byte* of(uint32_t rank) {
    const std::lock_guard lock(mutex_);
    return at_[rank];
  }
  /// An error where somebody has left, or does not come.
  Code wait(const Communicator& own, char* words) {
    std::unique_lock lock(mutex_);
    if (++arrived_ == size_) {
      arrived_ = 0;
      turn_++;
      changed_.notify_all();
    } else {
      const auto come = [this, turn = turn_] { return turn_ != turn || parted_; };
      const double patience = own.patience;
      if (patience <= 0) {
        changed_.wait(lock, come);
      } else if (!changed_.wait_for(lock, std::chrono::duration<double>(patience), come)) {
        parted_ = true;
        changed_.notify_all();
        std::snprintf(words, COMMUNICATOR_WORDS, SPILLWAY_WAITED_WORDS, own.rank, patience);
        return Code::device;
      }
    }
    if (!parted_) return Code::ok;
    std::snprintf(words, COMMUNICATOR_WORDS, "another rank ended");
    return Code::cancelled;
  }
  void part() {
    {
      const std::lock_guard lock(mutex_);
      parted_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const std::byte*> at_;
  uint32_t size_, arrived_ = 0;
  uint64_t turn_ = 0;
  bool parted_ = false;
};

struct ThreadRank : Communicator {
  std::shared_ptr<Meeting> meeting;
};

ThreadRank& of(Communicator* c) { return *static_cast<ThreadRank*>(c); }

Code thread_all_to_all(Communicator* c, const void* from, const uint64_t* bounds, void* into, char* words) {
  Meeting& meeting = *of(c).meeting;
  meeting.show(c->rank, from);
  if (const Code code = meeting.wait(*c, words); code != Code::ok) return code;
  const uint64_t own = bounds[c->rank + 1] - bounds[c->rank];
  for (uint32_t r = 0; r < c->size && own > 0; r++)
    std::memcpy(static_cast<std::byte*>(into) + r * own, meeting.of(r) + bounds[c->rank], own);
  return meeting.wait(*c, words);
}

Code thread_all_gather(Communicator* c, void* all, const uint64_t* bounds, char* words) {
  Meeting& meeting = *of(c).meeting;
  meeting.show(c->rank, all);
  if (const Code code = meeting.wait(*c, words); code != Code::ok) return code;
  for (uint32_t r = 0; r < c->size; r++)
    if (const uint64_t n = bounds[r + 1] - bounds[r]; r != c->rank && n > 0)
      std::memcpy(static_cast<std::byte*>(all) + bounds[r], meeting.of(r) + bounds[r], n);
  return meeting.wait(*c, words);
}

struct Shown {
  const Parcel* parts;
  uint32_t count;
};

Code thread_trade(Communicator* c, const Parcel* sends, uint32_t n_sends, const Parcel* takes, uint32_t n_takes, char* words) {
  Meeting& meeting = *of(c).meeting;
  const Shown own{sends, n_sends};
  meeting.show(c->rank, &own);
  if (const Code code = meeting.wait(*c, words); code != Code::ok) return code;
  std::vector<uint32_t> next(c->size, 0);  // by rank: the part of its that may be this rank's
  for (uint32_t i = 0; i < n_takes; i++) {
    const Parcel& part = takes[i];
    const Shown& theirs = *reinterpret_cast<const Shown*>(meeting.of(part.rank));
    uint32_t& at = next[part.rank];
    while (at < theirs.count && theirs.parts[at].rank != c->rank) at++;
    if (at == theirs.count || theirs.parts[at].bytes != part.bytes) {
      std::snprintf(words, COMMUNICATOR_WORDS, "ranks %u and %u disagree about the size of an exchange", c->rank, part.rank);
      return Code::illegal;
    }
    std::memcpy(part.data, theirs.parts[at++].data, part.bytes);
  }
  return meeting.wait(*c, words);
}

void part(Communicator* c) {
  of(c).meeting->part();
  if (c->beside) of(c->beside).meeting->part();
}

constexpr Engine THREADS{COMMUNICATOR_VERSION,
                         sizeof(Engine),
                         "threads",
                         thread_all_to_all,
                         thread_all_gather,
                         thread_trade,
                         part,
                         [](Communicator* c, int) { part(c); },
                         [](Communicator* c) {
                           if (c->beside) delete &of(c->beside);
                           delete &of(c);
                         }};

ThreadRank* rank_at(const std::shared_ptr<Meeting>& meeting, uint32_t number, uint32_t ranks) {
  const auto rank = new ThreadRank();
  rank->engine = &THREADS;
  rank->rank = number;
  rank->size = ranks;
  rank->meeting = meeting;
  return rank;
}

}  // namespace

Result<std::vector<OwnCommunicator>> open_thread_ranks(uint32_t ranks) {
  if (ranks < 1 || ranks > MOST_RANKS) return refuse(ranks, " ranks; allowed: 1 to ", MOST_RANKS);
  const auto meeting = std::make_shared<Meeting>(ranks), second = std::make_shared<Meeting>(ranks);
  std::vector<OwnCommunicator> all;
  for (uint32_t r = 0; r < ranks; r++) {
    all.emplace_back(rank_at(meeting, r, ranks));
    all.back()->beside = rank_at(second, r, ranks);
  }
  return all;
}

/// UCX, under MPICH and OpenMPI, rewrites mmap, munmap and the like in memory while it is loaded, to see freed memory. Threads that run
/// them meanwhile, as Node's do, may crash (openucx/ucx#11795, #3831). With this setting, it registers memory only for one message.
static void keep_memory_unhooked() { ::setenv("UCX_MEM_EVENTS", "n", 0); }

Result<OwnCommunicator> open_plugin_rank(const std::string& path) {
  keep_memory_unhooked();
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) return failed(Code::device, "cannot load ", path, ": ", ::dlerror());
  const auto open = reinterpret_cast<OpenCommunicator>(::dlsym(library, SPILLWAY_COMMUNICATOR_ENTRY));
  if (!open) return failed(Code::device, path, " is not an engine for spillway");
  char words[COMMUNICATOR_WORDS] = {};
  Communicator* const c = open(COMMUNICATOR_VERSION, words);
  if (!c) return failed(Code::device, words[0] ? words : "the engine was built for another version of spillway: rebuild it");
  if (c->size > MOST_RANKS) return refuse(c->size, " ranks; allowed: 1 to ", MOST_RANKS);
  return OwnCommunicator(c);
}

Result<Accord> agree(Communicator& c, Accord own) {
  uint8_t vote[MOST_RANKS];
  uint64_t bounds[MOST_RANKS + 1];
  for (uint32_t r = 0; r <= c.size; r++) bounds[r] = r;
  vote[c.rank] = uint8_t(own);
  char words[COMMUNICATOR_WORDS] = {};
  if (const Code code = c.engine->all_gather(&c, vote, bounds, words); code != Code::ok) return failed(code, words);
  return Accord(std::min(*std::max_element(vote, vote + c.size), uint8_t(Accord::interrupted)));
}

Result<std::vector<Bytes>> exchange(Communicator& c, std::span<const std::byte> own) {
  char words[COMMUNICATOR_WORDS] = {};
  std::vector<uint64_t> sizes(c.size), bounds(c.size + 1);
  for (uint32_t r = 0; r <= c.size; r++) bounds[r] = r * sizeof(uint64_t);
  sizes[c.rank] = own.size();
  if (const Code code = c.engine->all_gather(&c, sizes.data(), bounds.data(), words); code != Code::ok) return failed(code, words);
  bounds[0] = 0;
  for (uint32_t r = 0; r < c.size; r++) bounds[r + 1] = bounds[r] + sizes[r];
  Bytes all(bounds[c.size]);
  std::copy(own.begin(), own.end(), all.begin() + ptrdiff_t(bounds[c.rank]));
  if (const Code code = c.engine->all_gather(&c, all.data(), bounds.data(), words); code != Code::ok) return failed(code, words);
  std::vector<Bytes> each;
  for (uint32_t r = 0; r < c.size; r++) each.emplace_back(all.begin() + ptrdiff_t(bounds[r]), all.begin() + ptrdiff_t(bounds[r + 1]));
  return each;
}

}  // namespace spillway
