// Requests by io_uring, through the kernel's own interface (io_uring(7)): two rings in shared memory, one for submissions
// and one for completions. A request is submitted at once. A wait is a system call only if nothing has completed yet.
#include <sys/syscall.h>

#include "runtime/handles.hpp"
#include "runtime/tier_requests.hpp"

#if defined(SYS_io_uring_setup) && __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace spillway {
namespace {

/// A word that the kernel reads and writes too.
uint32_t load(const uint32_t* at) { return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(*at)).load(std::memory_order_acquire); }
void store(uint32_t* at, uint32_t value) { std::atomic_ref<uint32_t>(*at).store(value, std::memory_order_release); }

AddressRange map_ring(int fd, size_t bytes, off_t what) {
  return AddressRange::map_file(bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
}

bool knows_reads_and_writes(int ring) {
  constexpr unsigned OPERATIONS = IORING_OP_WRITE + 1;
  alignas(io_uring_probe) std::byte room[sizeof(io_uring_probe) + OPERATIONS * sizeof(io_uring_probe_op)] = {};
  auto* const probe = reinterpret_cast<io_uring_probe*>(room);
  if (::syscall(SYS_io_uring_register, ring, IORING_REGISTER_PROBE, probe, OPERATIONS) != 0) return false;
  const auto knows = [&](unsigned op) { return op <= probe->last_op && (probe->ops[op].flags & IO_URING_OP_SUPPORTED); };
  return knows(IORING_OP_READ) && knows(IORING_OP_WRITE);
}

class Uring final : public Requests {
 public:
  static Result<std::unique_ptr<Requests>> open(int fd, uint32_t depth) {
    io_uring_params p{};
    std::unique_ptr<Uring> u(new Uring(fd));
    u->ring_ = File(int(::syscall(SYS_io_uring_setup, depth, &p)));
    if (!u->ring_) return failed(Code::io, "no io_uring: ", system_error());
    if (!knows_reads_and_writes(u->ring_.fd())) return failed(Code::io, "this io_uring has no read and write requests");
    u->asked_ = map_ring(u->ring_.fd(), p.sq_off.array + p.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
    u->ended_ = map_ring(u->ring_.fd(), p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    u->entries_ = map_ring(u->ring_.fd(), p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
    if (!u->asked_ || !u->ended_ || !u->entries_) return failed(Code::io, "cannot map the rings of io_uring: ", system_error());
    u->offsets_ = p;
    return std::unique_ptr<Requests>(std::move(u));
  }
  /// Closing the ring does not wait for requests, so this does.
  ~Uring() override {
    while (under_way_ > 0) wait();
  }

  void submit(uint32_t slot, const Request& r) override {
    uint32_t* const tail = in(asked_, offsets_.sq_off.tail);
    const uint32_t mask = *in(asked_, offsets_.sq_off.ring_mask), index = *tail & mask;
    io_uring_sqe& e = reinterpret_cast<io_uring_sqe*>(entries_.data())[index];
    e = {};
    e.opcode = r.write ? IORING_OP_WRITE : IORING_OP_READ;
    e.fd = fd_;
    e.off = r.offset;
    e.addr = reinterpret_cast<uint64_t>(r.at);
    e.len = uint32_t(r.bytes);
    e.user_data = slot;
    in(asked_, offsets_.sq_off.array)[index] = index;
    store(tail, *tail + 1);
    if (enter(1, 0)) {
      under_way_++;
    } else {
      refused_.push_back({slot, -int64_t(errno)});
      store(tail, *tail - 1);
    }
  }

  Completion wait() override {
    if (!refused_.empty()) {
      const Completion c = refused_.back();
      refused_.pop_back();
      return c;
    }
    uint32_t* const head = in(ended_, offsets_.cq_off.head);
    while (*head == load(in(ended_, offsets_.cq_off.tail)))
      if (!enter(0, 1)) throw std::runtime_error("cannot wait for io_uring: " + system_error());
    const uint32_t mask = *in(ended_, offsets_.cq_off.ring_mask);
    const io_uring_cqe& e = reinterpret_cast<const io_uring_cqe*>(ended_.data() + offsets_.cq_off.cqes)[*head & mask];
    const Completion c{uint32_t(e.user_data), e.res};
    store(head, *head + 1);
    under_way_--;
    return c;
  }

 private:
  explicit Uring(int fd) : fd_(fd) {}
  static uint32_t* in(const AddressRange& ring, uint32_t offset) { return reinterpret_cast<uint32_t*>(ring.data() + offset); }
  /// Tries again after an interruption by a signal or a shortage of memory: the entry stays in the ring until the
  /// kernel takes it.
  bool enter(uint32_t submit, uint32_t wanted) {
    while (::syscall(SYS_io_uring_enter, ring_.fd(), submit, wanted, wanted ? IORING_ENTER_GETEVENTS : 0, nullptr, 0) < 0)
      if (errno != EINTR && errno != EAGAIN && errno != EBUSY) return false;
    return true;
  }

  const int fd_;
  File ring_;
  AddressRange asked_, ended_, entries_;
  io_uring_params offsets_{};
  uint32_t under_way_ = 0;
  std::vector<Completion> refused_;
};

}  // namespace

Result<std::unique_ptr<Requests>> open_uring(int fd, uint32_t depth) { return Uring::open(fd, depth); }

}  // namespace spillway
#else
namespace spillway {
Result<std::unique_ptr<Requests>> open_uring(int, uint32_t) { return failed(Code::io, "io_uring is missing in the headers of this build"); }
}  // namespace spillway
#endif
