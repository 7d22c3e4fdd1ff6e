// Worked example, rank 0 of 2 sends its third message to rank 1: the file 0-1-2, written beside and renamed, which rank 1 takes away.
#include "test/native/host_cuda/nccl.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "test/native/host_cuda/memory.hpp"
#include "test/native/host_cuda/rules.hpp"
#include "test/native/host_cuda/streams.hpp"

namespace fs = std::filesystem;

enum Answer { SUCCESS = 0, SYSTEM = 2, INTERNAL = 3, INVALID = 4, REMOTE = 6 };

struct ncclComm {
  fs::path folder;
  int rank = 0, size = 1;
  cudaStream_t stream = nullptr;
  std::map<int, uint64_t> sent, taken;  // messages so far, by the other rank
  uint64_t enqueued = 0;
  bool gone = false;

  fs::path message(int from, int to, uint64_t n) const {
    return folder / (std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(n));
  }
  fs::path mark(const char* what, int of) const { return folder / (std::string(what) + std::to_string(of)); }
};

namespace spillway::host_cuda {
namespace {

using Comm = std::shared_ptr<ncclComm>;

std::set<Comm>& communicators() {
  static auto& all = *new std::set<Comm>;
  return all;
}

Comm live(ncclComm* handle, const char* where) {
  for (const Comm& c : communicators())
    if (c.get() == handle) return c;
  broken("a communicator is used while it lives", where);
}

void put(const fs::path& at, const void* bytes, size_t n) {
  const fs::path fresh = at.string() + ".new";
  {
    std::ofstream out(fresh, std::ios::binary);
    out.write(static_cast<const char*>(bytes), std::streamsize(n));
  }
  std::error_code none;
  fs::rename(fresh, at, none);
}

/// Not before it is whole there.
bool get(const fs::path& at, void* into, size_t n) {
  std::error_code none;
  const auto there = fs::file_size(at, none);
  if (none) return false;
  if (there != n) broken("a receive is as large as its send", at.filename().c_str());
  std::ifstream(at, std::ios::binary).read(static_cast<char*>(into), std::streamsize(n));
  fs::remove(at, none);
  return true;
}

bool has_died(const ncclComm& c, int rank) {
  std::ifstream file(c.mark("rank", rank));
  pid_t pid = 0;
  if (!(file >> pid) || fs::exists(c.mark("gone", rank))) return false;
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  // One whose parent has not looked yet is dead, too.
  return !std::getline(stat, line) || line.compare(line.rfind(')') + 1, 3, " Z ") == 0;
}

/// The last one to go takes the folder with it.
void leave(const Comm& c) {
  c->gone = true;
  communicators().erase(c);
  put(c->mark("gone", c->rank), "", 0);
  std::error_code none;
  for (int r = 0; r < c->size; r++)
    if (!fs::exists(c->mark("gone", r))) return;
  fs::remove_all(c->folder, none);
}

struct Message {
  void* at;
  size_t bytes;
  int peer;
  bool taken;
};

/// A group's work, run until it is complete.
struct Exchange {
  Comm comm;
  std::vector<Message> sends, takes;
  bool has_sent = false;

  cudaError_t operator()() {
    if (comm->gone) return cudaSuccess;
    if (!has_sent)
      for (const Message& m : sends) put(comm->message(comm->rank, m.peer, comm->sent[m.peer]++), m.at, m.bytes);
    has_sent = true;
    // Messages of one rank come in order.
    std::set<int> late;
    bool all = true;
    for (Message& m : takes) {
      if (m.taken) continue;
      m.taken = !late.contains(m.peer) && get(comm->message(m.peer, comm->rank, comm->taken[m.peer]), m.at, m.bytes);
      if (m.taken)
        comm->taken[m.peer]++;
      else
        late.insert(m.peer);
      all = all && m.taken;
    }
    return all ? cudaSuccess : cudaErrorNotReady;
  }
};

/// The group of the calling thread.
struct Group {
  int depth = 0, failure = SUCCESS;
  Exchange work;
};
thread_local Group group;

int add(ncclComm* handle, cudaStream_t stream, void* at, size_t bytes, int type, int peer, bool takes, const char* where) {
  const Comm c = live(handle, where);
  if (group.depth == 0) broken("sends and receives stand in a group", where);
  if (group.work.comm && group.work.comm != c) broken("a group is of one communicator", where);
  if (!c->stream) c->stream = stream;
  if (c->stream != stream) broken("all ranks' exchanges are in one order, on one stream", where);
  if (type != 0 || peer < 0 || peer >= c->size || bytes == 0) return group.failure = INVALID;
  if (kind_of(at, bytes) != Kind::device) broken("what ranks exchange lies on the device", where);
  group.work.comm = c;
  (takes ? group.work.takes : group.work.sends).push_back({at, bytes, peer, false});
  return SUCCESS;
}

}  // namespace

uint64_t live_communicators() { return communicators().size(); }

}  // namespace spillway::host_cuda

using namespace spillway::host_cuda;

#define ENTER(name, code)                                    \
  const std::lock_guard<std::recursive_mutex> lock(world()); \
  if (fails(name)) return code;

extern "C" {

int ncclGetVersion(int* version) {
  ENTER("ncclGetVersion", INTERNAL)
  const char* const says = std::getenv("SPILLWAY_HOST_CUDA_NCCL");
  *version = says ? std::atoi(says) : 23203;
  return SUCCESS;
}

const char* ncclGetErrorString(int code) {
  switch (code) {
    case SYSTEM:
      return "unhandled system error";
    case INTERNAL:
      return "internal error";
    case INVALID:
      return "invalid argument";
    case REMOTE:
      return "remote process exited or there was a network error";
    default:
      return "no error";
  }
}

int ncclGetUniqueId(spillway::cuda::NcclId* id) {
  ENTER("ncclGetUniqueId", SYSTEM)
  std::string folder = (fs::temp_directory_path() / "spillway-nccl-XXXXXX").string();
  if (folder.size() >= sizeof id->internal || !::mkdtemp(folder.data())) return SYSTEM;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, folder.data(), folder.size());
  return SUCCESS;
}

/// Waits for the others, as NCCL does.
int ncclCommInitRank(ncclComm** into, int ranks, spillway::cuda::NcclId id, int rank) {
  const auto c = std::make_shared<ncclComm>();
  {
    ENTER("ncclCommInitRank", SYSTEM)
    if (rank < 0 || rank >= ranks) return INVALID;
    c->folder = std::string(id.internal);
    c->rank = rank;
    c->size = ranks;
    communicators().insert(c);
  }
  const std::string pid = std::to_string(::getpid());
  put(c->mark("rank", rank), pid.data(), pid.size());
  for (int r = 0; r < ranks; r++)
    while (!fs::exists(c->mark("rank", r))) {
      if (!fs::exists(c->folder)) return REMOTE;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  *into = c.get();
  return SUCCESS;
}

int ncclCommDestroy(ncclComm* handle) {
  ENTER("ncclCommDestroy", INTERNAL)
  leave(live(handle, "ncclCommDestroy"));
  return SUCCESS;
}

int ncclCommAbort(ncclComm* handle) {
  const std::lock_guard<std::recursive_mutex> lock(world());
  leave(live(handle, "ncclCommAbort"));
  return fails("ncclCommAbort") ? INTERNAL : SUCCESS;
}

int ncclCommGetAsyncError(ncclComm* handle, int* code) {
  ENTER("ncclCommGetAsyncError", INTERNAL)
  const Comm c = live(handle, "ncclCommGetAsyncError");
  *code = SUCCESS;
  for (int r = 0; r < c->size; r++)
    if (r != c->rank && has_died(*c, r)) *code = REMOTE;
  return SUCCESS;
}

int ncclGroupStart() {
  ENTER("ncclGroupStart", INTERNAL)
  group.depth++;
  return SUCCESS;
}

int ncclGroupEnd() {
  const std::lock_guard<std::recursive_mutex> lock(world());
  if (group.depth == 0) broken("a group that ends has begun", "ncclGroupEnd");
  if (fails("ncclGroupEnd")) group.failure = INTERNAL;
  if (--group.depth > 0) return SUCCESS;
  Group ended = std::move(group);
  group = {};
  if (ended.failure != SUCCESS || !ended.work.comm) return ended.failure;
  std::vector<const void*> touched;
  for (const auto* list : {&ended.work.sends, &ended.work.takes})
    for (const Message& m : *list) touched.push_back(m.at);
  const cudaStream_t stream = ended.work.comm->stream;
  const std::vector<uint64_t> ranges = ranges_in(touched.data(), touched.size() * sizeof(void*));
  return enqueue(stream, ranges, std::move(ended.work)) == cudaSuccess ? SUCCESS : 1;
}

int ncclSend(const void* from, size_t count, int type, int peer, ncclComm* comm, cudaStream_t stream) {
  ENTER("ncclSend", group.failure = INTERNAL)
  return add(comm, stream, const_cast<void*>(from), count, type, peer, false, "ncclSend");
}

int ncclRecv(void* into, size_t count, int type, int peer, ncclComm* comm, cudaStream_t stream) {
  ENTER("ncclRecv", group.failure = INTERNAL)
  return add(comm, stream, into, count, type, peer, true, "ncclRecv");
}

}  // extern "C"
