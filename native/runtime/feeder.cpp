// The thread that fills the buffers. Worked example of two buffers: ready(3) waits for step 3's bytes and asks for step 4's; those go
// to the buffer of step 2, which has ended. If every step has the same batch, step 1's is drawn, step 2's copied, and no other touched.
#include "runtime/feeder.hpp"

#include <algorithm>
#include <cstring>

namespace spillway {
namespace {

/// The most pinned bytes of a buffer for values that the tape reads tile by tile. Above it a thread copies each tile when its turn
/// comes, so that host memory does not grow with the image.
constexpr uint64_t MOST_PARTS_BYTES = uint64_t(64) << 20;

/// Returns true if the tape reads a fed value in several parts.
bool reads_by_parts(const Tape& tape) {
  return std::any_of(tape.transfers.begin(), tape.transfers.end(), [&](const TransferRecord& t) {
    if (!t.from_source()) return false;
    const ViewRecord& v = tape.views[tape.bindings[t.binding].view];
    return t.bytes < uint64_t(v.dims[0]) * v.dims[1] * v.dims[2] * v.dims[3] * dtype_bytes(v.dtype);
  });
}

}  // namespace

Result<std::unique_ptr<Feeder>> Feeder::open(const Tape& tape, OpenDevice& device) {
  std::unique_ptr<Feeder> f(new Feeder(tape));
  for (const TransferRecord& t : tape.transfers) {
    f->offsets_.push_back(f->bytes_);
    if (t.from_source()) f->bytes_ += (t.bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  }
  if (reads_by_parts(tape) && f->bytes_ > MOST_PARTS_BYTES) f->bytes_ = 0;
  if (!f->feeds()) return f;
  const bool ahead = std::any_of(tape.transfers.begin(), tape.transfers.end(),
                                 [&](const TransferRecord& t) { return t.from_source() && tape.is_ahead(t); });
  f->buffers_.resize(ahead ? 3 : 2);
  f->held_.resize(f->buffers_.size());
  for (std::byte*& buffer : f->buffers_) {
    const Result<std::byte*> pinned = device.pin(f->bytes_);
    if (!pinned.ok()) return within(pinned.status(), "buffers for the step's inputs: ");
    buffer = pinned.value();
  }
  f->thread_ = std::thread([self = f.get()] { self->work(); });
  return f;
}

Feeder::~Feeder() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Feeder::begin(Source* source, uint64_t first_step, uint64_t last_step) {
  if (!feeds()) return;
  {
    const std::lock_guard lock(mutex_);
    source_ = source;
    last_ = last_step;
    wanted_ = read_in(first_step);
    filled_ = first_step - 1;
    std::fill(held_.begin(), held_.end(), 0);
    failure_ = {};
    stop_ = false;
  }
  changed_.notify_all();
}

Status Feeder::ready(uint64_t step) {
  if (!feeds()) return {};
  std::unique_lock lock(mutex_);
  const uint64_t needed = read_in(step);
  changed_.wait(lock, [&] { return filled_ >= needed || !failure_.ok() || stop_; });
  if (filled_ < needed) return failure_.ok() ? cancelled() : failure_;
  wanted_ = read_in(step + 1);
  lock.unlock();
  changed_.notify_all();
  return {};
}

void Feeder::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void Feeder::end() {
  interrupt();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
}

void Feeder::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return quit_ || (!stop_ && failure_.ok() && wanted_ > filled_); });
    if (quit_) return;
    const uint64_t step = filled_ + 1;
    busy_ = true;
    lock.unlock();
    Status status = fill(step);
    lock.lock();
    busy_ = false;
    if (status.ok())
      filled_ = step;
    else
      failure_ = std::move(status);
    changed_.notify_all();
  }
}

Status Feeder::fill(uint64_t step) {
  uint64_t& held = held_[parity(step)];
  Status status;
  if (held == 0 || !source_->same(held, step)) {
    held = 0;
    status = refill(step);
  }
  if (status.ok()) held = step;
  return status;
}

Status Feeder::refill(uint64_t step) {
  const auto alike = std::find_if(held_.begin(), held_.end(), [&](uint64_t held) { return held > 0 && source_->same(held, step); });
  for (size_t i = 0; i < tape_.transfers.size(); i++) {
    const TransferRecord& t = tape_.transfers[i];
    if (!t.from_source()) continue;
    std::byte* const into = buffers_[parity(step)] + offsets_[i];
    const std::byte* const from = alike == held_.end() ? nullptr : buffers_[size_t(alike - held_.begin())] + offsets_[i];
    for (uint64_t lo = 0; lo < t.bytes; lo += COPY_PIECE_BYTES) {
      {
        const std::lock_guard lock(mutex_);
        if (stop_ || quit_) return cancelled();
      }
      const uint64_t n = std::min(COPY_PIECE_BYTES, t.bytes - lo);
      if (from)
        std::memcpy(into + lo, from + lo, n);
      else if (Status s = source_->read(t.binding, step, t.far_offset + lo, {into + lo, n}); !s.ok())
        return s;
    }
  }
  return {};
}

}  // namespace spillway
