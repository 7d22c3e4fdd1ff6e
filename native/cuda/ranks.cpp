// NCCL's waits for other ranks on the host (its start, the first bytes to each of them) run on a thread of their own, so that another
// thread can time out. Later calls only enqueue.
#include "cuda/ranks.hpp"

#include <time.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace spillway::cuda {
namespace {

const Nccl& api() { return nccl().value(); }

Status checked_nccl(int code, const char* what) {
  return code == NCCL_SUCCESS ? Status{} : failed(Code::device, what, ": ", api().ncclGetErrorString(code));
}

Status waited(const Communicator& host, double seconds) {
  char words[COMMUNICATOR_WORDS];
  std::snprintf(words, sizeof words, SPILLWAY_WAITED_WORDS, host.rank, seconds);
  return failed(Code::device, words);
}

/// The facts of each rank.
struct Card {
  NcclId id;  // rank 0's
  int version;
  char boot[40], bus[32];  // its machine, for as long as that runs; its GPU there
};

Result<Card> own_card(const Communicator& host, int device) {
  Card card{};
  std::ifstream("/proc/sys/kernel/random/boot_id").getline(card.boot, sizeof card.boot);
  SPILLWAY_CUDA(cudaDeviceGetPCIBusId(card.bus, sizeof card.bus, device));
  SPILLWAY_TRY(checked_nccl(api().ncclGetVersion(&card.version), "ncclGetVersion"));
  if (host.rank == 0) SPILLWAY_TRY(checked_nccl(api().ncclGetUniqueId(&card.id), "ncclGetUniqueId"));
  return card;
}

/// Everybody's, in the order of ranks.
Result<std::vector<Card>> all_cards(Communicator& host, const Card& own) {
  std::vector<Card> all(host.size);
  std::vector<uint64_t> bounds;
  for (uint32_t r = 0; r <= host.size; r++) bounds.push_back(r * sizeof(Card));
  all[host.rank] = own;
  char words[COMMUNICATOR_WORDS] = {};
  const Code code = host.engine->all_gather(&host, all.data(), bounds.data(), words);
  return code == Code::ok ? Result<std::vector<Card>>(std::move(all)) : Result<std::vector<Card>>(failed(code, words));
}

Status check_cards(const std::vector<Card>& all) {
  for (size_t r = 0; r < all.size(); r++) {
    if (all[r].version != all[0].version)
      return failed(Code::illegal, "rank ", r, " and rank 0 have different NCCL versions: ", nccl_version(all[r].version), " and ",
                    nccl_version(all[0].version));
    for (size_t before = 0; before < r; before++)
      if (std::strcmp(all[before].boot, all[r].boot) == 0 && std::strcmp(all[before].bus, all[r].bus) == 0)
        return failed(Code::illegal, "ranks ", before, " and ", r, " have the same GPU (", all[r].bus,
                      "); each rank needs its own: set CUDA_VISIBLE_DEVICES per process");
  }
  return {};
}

struct Member {
  uint32_t rank, size;
};

/// A few bytes to each rank and from each, so that all are connected before anything is captured or timed.
Status shake_hands(Member own, NcclComm comm, cudaStream_t stream) {
  std::vector<uint64_t> numbers(2 * own.size, own.rank);
  uint64_t* at = nullptr;
  SPILLWAY_CUDA(cudaMalloc(reinterpret_cast<void**>(&at), numbers.size() * sizeof *at));
  const auto exchanged = [&]() -> Status {
    SPILLWAY_CUDA(cudaMemcpyAsync(at, numbers.data(), numbers.size() * sizeof *at, cudaMemcpyHostToDevice, stream));
    SPILLWAY_TRY(checked_nccl(api().ncclGroupStart(), "ncclGroupStart"));
    Status s;
    for (uint32_t r = 0; s.ok() && r < own.size; r++) {
      s = checked_nccl(api().ncclSend(at + r, sizeof *at, NCCL_BYTES, int(r), comm, stream), "ncclSend");
      if (s.ok()) s = checked_nccl(api().ncclRecv(at + own.size + r, sizeof *at, NCCL_BYTES, int(r), comm, stream), "ncclRecv");
    }
    const Status ended = checked_nccl(api().ncclGroupEnd(), "ncclGroupEnd");
    if (!s.ok() || !ended.ok()) return s.ok() ? ended : s;
    SPILLWAY_CUDA(cudaMemcpyAsync(numbers.data(), at, numbers.size() * sizeof *at, cudaMemcpyDeviceToHost, stream));
    SPILLWAY_CUDA(cudaStreamSynchronize(stream));
    for (uint32_t r = 0; r < own.size; r++)
      if (numbers[own.size + r] != r) return failed(Code::device, "NCCL delivered wrong bytes from rank ", r, "");
    return {};
  };
  const Status s = exchanged();
  if (s.ok()) return checked(cudaFree(at), "cudaFree");
  return s;  // what NCCL may still write to is not given back
}

/// The state of a thread that may wait for ever.
struct Opening {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  Status status;
  NcclComm comm = nullptr;
};

Status open_within(double patience, const Communicator& host, const std::shared_ptr<Opening>& opening, const NcclId& id,
                   cudaStream_t stream) {
  std::thread([opening, id, stream, own = Member{host.rank, host.size}] {
    NcclComm comm = nullptr;
    Status s = checked_nccl(api().ncclCommInitRank(&comm, int(own.size), id, int(own.rank)), "ncclCommInitRank");
    {
      const std::lock_guard lock(opening->mutex);
      if (s.ok()) opening->comm = comm;
    }
    if (s.ok()) s = shake_hands(own, comm, stream);
    const std::lock_guard lock(opening->mutex);
    opening->status = s;
    opening->over = true;
    opening->changed.notify_all();
  }).detach();
  std::unique_lock lock(opening->mutex);
  const auto is_over = [&] { return opening->over; };
  if (patience <= 0)
    opening->changed.wait(lock, is_over);
  else if (!opening->changed.wait_for(lock, std::chrono::duration<double>(patience), is_over))
    return waited(host, patience);
  return opening->status;
}

/// Whose words they are, where they do not tell.
Status of_rank(const Communicator& host, const Status& s) {
  return s.message.rfind("rank ", 0) == 0 ? s : within(s, "rank ", host.rank, ": ");
}

double seconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

}  // namespace

Result<std::unique_ptr<Ranks>> Ranks::open(Communicator& host, int device, cudaStream_t stream) {
  if (!nccl().ok()) return of_rank(host, nccl().status());
  const Result<Card> own = own_card(host, device);
  if (!own.ok()) return of_rank(host, own.status());
  const Result<std::vector<Card>> all = all_cards(host, own.value());
  if (!all.ok()) return all.status();
  SPILLWAY_TRY(check_cards(all.value()));
  const auto opening = std::make_shared<Opening>();
  const Status s = open_within(host.patience, host, opening, all.value()[0].id, stream);
  if (s.ok()) return std::unique_ptr<Ranks>(new Ranks(host, stream, opening->comm));
  const std::lock_guard lock(opening->mutex);
  if (opening->comm) api().ncclCommAbort(opening->comm);
  return of_rank(host, s);
}

Ranks::~Ranks() {
  const std::lock_guard lock(mutex_);
  if (comm_) api().ncclCommDestroy(comm_);
}

/// With the lock held.
Status Ranks::lose(Status why) {
  lost_ = of_rank(host_, why);
  lost_at_ = seconds_now();
  if (comm_) api().ncclCommAbort(std::exchange(comm_, nullptr));
  return lost_;
}

Status Ranks::trade(const Parcel* sends, size_t n_sends, const Parcel* takes, size_t n_takes) {
  const std::lock_guard lock(mutex_);
  if (!lost_.ok()) return lost_;
  if (n_sends + n_takes == 0) return {};
  Status s = checked_nccl(api().ncclGroupStart(), "ncclGroupStart");
  if (!s.ok()) return lose(s);
  for (size_t i = 0; s.ok() && i < n_sends; i++)
    s = checked_nccl(api().ncclSend(sends[i].data, sends[i].bytes, NCCL_BYTES, int(sends[i].rank), comm_, stream_), "ncclSend");
  for (size_t i = 0; s.ok() && i < n_takes; i++)
    s = checked_nccl(api().ncclRecv(takes[i].data, takes[i].bytes, NCCL_BYTES, int(takes[i].rank), comm_, stream_), "ncclRecv");
  const Status ended = checked_nccl(api().ncclGroupEnd(), "ncclGroupEnd");  // also of a group that has failed
  if (s.ok()) s = ended;
  return s.ok() ? s : lose(s);
}

/// The error since the last look; call it with the lock held.
Status Ranks::looked_at() {
  if (!lost_.ok()) return lost_;
  int code = NCCL_SUCCESS;
  Status s = checked_nccl(api().ncclCommGetAsyncError(comm_, &code), "ncclCommGetAsyncError");
  if (s.ok() && code != NCCL_SUCCESS) s = failed(Code::device, "NCCL: ", api().ncclGetErrorString(code), " (did another rank end?)");
  return s.ok() ? s : lose(s);
}

/// Lost work ends by itself, soon. This polls, then sleeps, a little longer each time, as ranks do that wait for MPI.
Status Ranks::finish(cudaStream_t stream) {
  constexpr unsigned LOOKS = 50;
  constexpr double LAST_SECONDS = 10;
  constexpr long SHORTEST_NS = 5'000, LONGEST_NS = 100'000;
  const double start = seconds_now(), patience = host_.patience;
  for (unsigned looks = 0;; looks++) {
    const cudaError_t code = cudaStreamQuery(stream);
    if (code != cudaErrorNotReady) {
      const std::lock_guard lock(mutex_);
      return lost_.ok() ? checked(code, "the GPU") : lost_;
    }
    if (looks < LOOKS) continue;
    if (looks % LOOKS == 0) {
      const std::lock_guard lock(mutex_);
      const double seconds = seconds_now() - start;
      if (lost_.ok() && patience > 0 && seconds > patience) lose(waited(host_, patience));
      if (!looked_at().ok() && seconds_now() - lost_at_ > LAST_SECONDS) return lost_;
    }
    const timespec pause{0, std::min(LONGEST_NS, SHORTEST_NS + 500L * long(looks - LOOKS))};
    ::nanosleep(&pause, nullptr);
  }
}

void Ranks::leave() {
  const std::lock_guard lock(mutex_);
  if (lost_.ok()) lose(failed(Code::cancelled, "the run ended"));
}

}  // namespace spillway::cuda
