// The thread behind a copy stream. A job is moved in pieces, so that a throttled or cancelled copy ends soon; where the mover
// has room, pieces of the jobs behind it are under way already.
// Worked example: 16 MiB at 8 MiB/s: two pieces, after each the link is held back until one more second has passed.
#include "runtime/streams.hpp"

#include <algorithm>

namespace spillway {
CopyStream::CopyStream(StreamId id, size_t capacity, double bytes_per_second, std::unique_ptr<Mover> mover, const Processors& processors)
    : id_(id), bytes_per_second_(bytes_per_second), mover_(std::move(mover)), ring_(std::max<size_t>(capacity, 1)), pieces_(MOST_PIECES) {
  spans_.reserve(ring_.size());
  thread_ = std::thread([this, processors] {
    refuse_file_signals();
    run_on(processors);
    work();
  });
}

CopyStream::~CopyStream() {
  interrupt();
  thread_.join();
}

CopyStream::Ticket CopyStream::push(const CopyJob& job) {
  Ticket ticket;
  {
    const std::lock_guard lock(mutex_);
    ticket = ++pushed_;
    entry(ticket) = {job, 0, job.bytes, {}};
  }
  changed_.notify_all();
  return ticket;
}

bool CopyStream::complete(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  return completed_ >= ticket;
}

Status CopyStream::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ >= ticket || !failure_.ok() || stop_; });
  if (completed_ >= ticket) return {};
  return failure_.ok() ? cancelled() : failure_;
}

void CopyStream::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void CopyStream::abandon() {
  interrupt();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return idle_; });
}

void CopyStream::begin_step(Clock::time_point start, bool record) {
  const std::lock_guard lock(mutex_);
  step_start_ = last_end_ = start;
  record_ = record;
  spans_.clear();
}

void CopyStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (failure_.ok() && completed_ < pushed_); });
    if (stop_) return;
    idle_ = false;
    lock.unlock();
    Status status = run_queue();
    lock.lock();
    idle_ = true;
    if (!status.ok()) failure_ = std::move(status);
    changed_.notify_all();
  }
}

Status CopyStream::run_queue() {
  Status status;
  while (true) {
    while (status.ok() && start_piece()) {
    }
    if (under_way_ == 0) return status;
    Moved m = mover_->finish();
    under_way_--;
    const auto [ticket, bytes] = std::exchange(pieces_[m.tag], {0, 0});
    if (status.ok()) status = std::move(m.status);
    if (status.ok()) status = hold_back(bytes);
    if (status.ok()) settle(ticket, bytes);
  }
}

/// The next piece of the first job that is not wholly started; false when there is none, or no room for it.
bool CopyStream::start_piece() {
  CopyJob job;
  uint64_t lo;
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || starting_ > pushed_) return false;
    job = entry(starting_).job;
    lo = entry(starting_).next;
    if (job.bytes == 0) {
      starting_++;
      complete_in_order();
    }
  }
  if (job.bytes == 0) {
    changed_.notify_all();
    return true;
  }
  const uint64_t most = bytes_per_second_ > 0 ? std::min(mover_->piece_bytes(), COPY_PIECE_BYTES) : mover_->piece_bytes();
  const uint64_t hi = std::min(job.bytes, lo + most);
  if (under_way_ >= MOST_PIECES || !mover_->has_room(job, lo, hi)) return false;
  const auto free = std::find_if(pieces_.begin(), pieces_.end(), [](const auto& p) { return p.first == 0; });
  *free = {starting_, hi - lo};
  const Clock::time_point now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (lo == 0) entry(starting_).start = now;
    entry(starting_).next = hi;
  }
  link_free_ = std::max(link_free_, now);
  if (hi == job.bytes) starting_++;
  under_way_++;
  mover_->start(uint64_t(free - pieces_.begin()), job, lo, hi);
  return true;
}

/// These bytes of a job have been moved.
void CopyStream::settle(Ticket ticket, uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    entry(ticket).left -= bytes;
    complete_in_order();
  }
  changed_.notify_all();
}

/// A job is complete when it and all before it are; in the record one begins where the one before it ended.
void CopyStream::complete_in_order() {
  while (completed_ + 1 < starting_ && entry(completed_ + 1).left == 0) {
    const Entry& e = entry(completed_ + 1);
    const Clock::time_point start = std::max(e.start, last_end_), end = Clock::now();
    if (record_ && spans_.size() < spans_.capacity())
      spans_.push_back({id_, e.job.instruction, e.job.transfer, seconds_between(step_start_, start), seconds_between(step_start_, end)});
    last_end_ = end;
    completed_++;
  }
}

/// The link is busy with these bytes for at least bytes / rate; returns early when the stream is told to stop.
Status CopyStream::hold_back(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  if (bytes_per_second_ > 0) {
    link_free_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(double(bytes) / bytes_per_second_));
    changed_.wait_until(lock, link_free_, [&] { return stop_; });
  }
  return stop_ ? cancelled() : Status{};
}

}  // namespace spillway
