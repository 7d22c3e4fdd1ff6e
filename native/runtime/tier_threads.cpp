// Requests by threads that read and write: where the kernel has no io_uring, or a container forbids it.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/tier_requests.hpp"

namespace spillway {
namespace {

class RequestThreads final : public Requests {
 public:
  RequestThreads(int fd, uint32_t depth) : fd_(fd) {
    asked_.reserve(depth);
    done_.reserve(depth);
    for (uint32_t i = 0; i < depth; i++) threads_.emplace_back([this] { work(); });
  }
  ~RequestThreads() override {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    waiting_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  void submit(uint32_t slot, const Request& request) override {
    {
      const std::lock_guard lock(mutex_);
      asked_.emplace_back(slot, request);
    }
    waiting_.notify_one();
  }
  Completion wait() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return !done_.empty(); });
    const Completion c = done_.front();
    done_.erase(done_.begin());
    return c;
  }

 private:
  int64_t serve(const Request& r) const {
    const ssize_t n = r.write ? ::pwrite(fd_, r.at, r.bytes, off_t(r.offset)) : ::pread(fd_, r.at, r.bytes, off_t(r.offset));
    return n >= 0 ? n : -errno;
  }
  void work() {
    refuse_file_signals();
    std::unique_lock lock(mutex_);
    while (true) {
      waiting_.wait(lock, [&] { return quit_ || !asked_.empty(); });
      if (asked_.empty()) return;
      const auto [slot, request] = asked_.front();
      asked_.erase(asked_.begin());
      lock.unlock();
      const int64_t result = serve(request);
      lock.lock();
      done_.push_back({slot, result});
      ended_.notify_one();
    }
  }

  const int fd_;
  std::mutex mutex_;
  std::condition_variable waiting_, ended_;
  std::vector<std::pair<uint32_t, Request>> asked_;  // in order; room for all slots
  std::vector<Completion> done_;
  bool quit_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace

Result<std::unique_ptr<Requests>> open_request_threads(int fd, uint32_t depth) {
  return std::unique_ptr<Requests>(std::make_unique<RequestThreads>(fd, depth));
}

Result<std::unique_ptr<Requests>> open_requests(int fd, uint32_t depth) {
  auto ring = open_uring(fd, depth);
  return ring.ok() ? std::move(ring) : open_request_threads(fd, depth);
}

void refuse_file_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace spillway
