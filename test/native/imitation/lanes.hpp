// Streams, events and graphs as CUDA has them, on threads of the host: each lane is a thread with a queue; a capture records work as a
// graph of nodes, replayed with exactly the order of its events. Invariant: only lanes and events order anything (random pauses make errors
// visible); misuse that CUDA refuses is refused: waits across captures, lanes that have not joined, events without a record.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "core/result.hpp"
#include "runtime/clock.hpp"
#include "runtime/device.hpp"

namespace spillway::imitation {

using Job = std::function<Status()>;

class Lanes {
 public:
  explicit Lanes(uint32_t events);
  ~Lanes();

  Status push(Lane lane, Job job);
  Status record(Lane lane, uint32_t event);
  Status wait(Lane lane, uint32_t event);
  Status stamp(Lane lane, uint32_t number);
  double seconds_between(uint32_t from, uint32_t to);
  /// Returns when the lane is idle; the first failure of any lane is everybody's from then on, as with a lost device.
  Status finish(Lane lane);

  /// The far lanes never are: their threads may ask while another captures.
  bool capturing(Lane lane) const { return lane < Lane::far_out && capture_ && capture_->lanes[size_t(lane)].inside; }
  Status begin_capture();
  Result<uint32_t> end_capture();
  Status launch(uint32_t graph);

 private:
  struct Node {
    Lane lane;
    Job job;
    std::vector<size_t> after;
  };
  struct Event {
    uint64_t recorded = 0, done = 0;
    uint64_t capture = 0;
    std::vector<size_t> nodes;
  };
  struct CapturedLane {
    bool inside = false;
    std::vector<size_t> next_after;
  };
  struct Capture {
    uint64_t number;
    std::vector<Node> nodes;
    std::vector<CapturedLane> lanes;
  };
  struct Queue {
    std::deque<Job> jobs;
    bool busy = false;
    std::thread thread;
  };

  void work(Lane lane);
  void enqueue(Lane lane, Job job);
  /// On the thread of a lane: returns when `ready`, or when a lane has failed.
  Status wait_until(const std::function<bool()>& ready);
  Status all_joined() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  std::vector<Clock::time_point> stamps_;
  std::vector<Queue> queues_;
  std::vector<std::vector<Node>> graphs_;
  std::optional<Capture> capture_;
  uint64_t captures_ = 0;
  Status failure_;
  bool quit_ = false;
};

}  // namespace spillway::imitation
