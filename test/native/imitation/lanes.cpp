// Worked example: record(compute, e); wait(out, e); copy on out; record(out, f); wait(compute, f), captured: the copy is a node after
// compute's last one, and the next node of compute comes after the copy.
#include "test/native/imitation/lanes.hpp"

#include <algorithm>
#include <memory>

namespace spillway::imitation {

Lanes::Lanes(uint32_t events) : events_(events), queues_(LANES) {
  for (uint32_t lane = 0; lane < LANES; lane++) queues_[lane].thread = std::thread([this, lane] { work(Lane(lane)); });
}

Lanes::~Lanes() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  for (Queue& q : queues_) q.thread.join();
}

void Lanes::work(Lane lane) {
  constexpr int MOST_MICROSECONDS = 150;
  std::mt19937 random(uint32_t(lane) + 1);
  Queue& queue = queues_[size_t(lane)];
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return quit_ || !queue.jobs.empty(); });
    if (quit_) return;
    const Job job = std::move(queue.jobs.front());
    queue.jobs.pop_front();
    queue.busy = true;
    const bool run = failure_.ok();
    lock.unlock();
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % MOST_MICROSECONDS));
    Status status = run ? job() : Status{};
    lock.lock();
    queue.busy = false;
    if (!status.ok() && failure_.ok()) failure_ = std::move(status);
    changed_.notify_all();
  }
}

void Lanes::enqueue(Lane lane, Job job) {
  {
    const std::lock_guard lock(mutex_);
    queues_[size_t(lane)].jobs.push_back(std::move(job));
  }
  changed_.notify_all();
}

Status Lanes::wait_until(const std::function<bool()>& ready) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready() || !failure_.ok() || quit_; });
  return {};
}

Status Lanes::push(Lane lane, Job job) {
  if (!capturing(lane)) {
    enqueue(lane, std::move(job));
    return {};
  }
  CapturedLane& c = capture_->lanes[size_t(lane)];
  capture_->nodes.push_back({lane, std::move(job), c.next_after});
  c.next_after = {capture_->nodes.size() - 1};
  return {};
}

Status Lanes::record(Lane lane, uint32_t event) {
  if (event >= events_.size()) return refuse("there is no event ", event);
  if (capturing(lane)) {
    const std::lock_guard lock(mutex_);
    events_[event].capture = capture_->number;
    events_[event].nodes = capture_->lanes[size_t(lane)].next_after;
    return {};
  }
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    events_[event].capture = 0;
    number = ++events_[event].recorded;
  }
  enqueue(lane, [this, event, number] {
    const std::lock_guard lock(mutex_);
    events_[event].done = number;
    changed_.notify_all();
    return Status{};
  });
  return {};
}

Status Lanes::wait(Lane lane, uint32_t event) {
  if (event >= events_.size()) return refuse("there is no event ", event);
  std::unique_lock lock(mutex_);
  const Event& e = events_[event];
  if (e.capture != 0) {
    if (lane >= Lane::far_out || !capture_ || capture_->number != e.capture) return refuse("event ", event, " belongs to another capture");
    CapturedLane& c = capture_->lanes[size_t(lane)];
    if (!c.inside) c.next_after.clear();
    c.inside = true;
    c.next_after.insert(c.next_after.end(), e.nodes.begin(), e.nodes.end());
    return {};
  }
  if (capturing(lane)) return refuse("a capture cannot wait for event ", event, ", which was recorded outside of it");
  if (e.recorded == 0) return refuse("nobody has recorded event ", event);
  const uint64_t number = e.recorded;
  lock.unlock();
  enqueue(lane, [this, event, number] { return wait_until([&] { return events_[event].done >= number; }); });
  return {};
}

Status Lanes::stamp(Lane lane, uint32_t number) {
  if (capturing(lane)) return refuse("a stamp inside a capture tells no time");
  {
    const std::lock_guard lock(mutex_);
    if (stamps_.size() <= number) stamps_.resize(number + 1);
  }
  enqueue(lane, [this, number] {
    const std::lock_guard lock(mutex_);
    stamps_[number] = Clock::now();
    return Status{};
  });
  return {};
}

double Lanes::seconds_between(uint32_t from, uint32_t to) {
  const std::lock_guard lock(mutex_);
  return spillway::seconds_between(stamps_[from], stamps_[to]);
}

Status Lanes::finish(Lane lane) {
  if (capturing(lane)) return refuse("the host cannot wait for a lane that is captured");
  Queue& queue = queues_[size_t(lane)];
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue.jobs.empty() && !queue.busy; });
  return failure_;
}

// ---------------------------------------------------------------- graphs

Status Lanes::begin_capture() {
  if (capture_) return refuse("a capture is under way");
  capture_ = Capture{++captures_, {}, std::vector<CapturedLane>(LANES)};
  capture_->lanes[size_t(Lane::compute)].inside = true;
  return {};
}

/// Each node is an ancestor of the compute lane's end.
Status Lanes::all_joined() const {
  std::vector<bool> reached(capture_->nodes.size());
  std::vector<size_t> open = capture_->lanes[size_t(Lane::compute)].next_after;
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    open.insert(open.end(), capture_->nodes[node].after.begin(), capture_->nodes[node].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end() ? Status{} : refuse("a lane has not joined the capture again");
}

Result<uint32_t> Lanes::end_capture() {
  if (!capture_) return refuse("no capture is under way");
  const Status joined = all_joined();
  std::vector<Node> nodes = std::move(capture_->nodes);
  capture_.reset();
  if (!joined.ok()) return joined;
  graphs_.push_back(std::move(nodes));
  return uint32_t(graphs_.size() - 1);
}

Status Lanes::launch(uint32_t graph) {
  if (graph >= graphs_.size()) return refuse("there is no graph ", graph);
  if (capture_) return refuse("a capture is under way");
  struct Replay {
    bool begun = false;
    std::vector<bool> done;
  };
  const std::vector<Node>& nodes = graphs_[graph];
  const auto replay = std::make_shared<Replay>();
  replay->done.resize(nodes.size());
  enqueue(Lane::compute, [this, replay] {
    const std::lock_guard lock(mutex_);
    replay->begun = true;
    changed_.notify_all();
    return Status{};
  });
  for (size_t i = 0; i < nodes.size(); i++)
    enqueue(nodes[i].lane, [this, replay, &node = nodes[i], i] {
      wait_until(
          [&] { return replay->begun && std::all_of(node.after.begin(), node.after.end(), [&](size_t n) { return replay->done[n]; }); });
      Status status = node.job();
      const std::lock_guard lock(mutex_);
      replay->done[i] = true;
      changed_.notify_all();
      return status;
    });
  enqueue(Lane::compute, [this, replay] {
    return wait_until([&] { return std::find(replay->done.begin(), replay->done.end(), false) == replay->done.end(); });
  });
  return {};
}

}  // namespace spillway::imitation
