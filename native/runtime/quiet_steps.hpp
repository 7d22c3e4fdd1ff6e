// The seconds of each call in a step. In: the calls of each step, as they end. Out: those of the fastest undisturbed step. Invariant:
// all are of one step. There is no mean, because no counter shows the time that a hypervisor takes. If copies run beside the calls,
// our own threads wait for one another, and a device that measures its own time waits for no thread: then it is the fastest step of
// all.
#pragma once
#include <limits>
#include <utility>
#include <vector>

#include "runtime/queueing.hpp"

namespace spillway {

class QuietSteps {
 public:
  QuietSteps(size_t calls, bool all_count) : all_count_(all_count), step_(calls), quickest_(calls) {}
  void begin_step(const Queueing& queueing) { stood_ = queueing.seconds(); }
  void count(uint32_t call, double seconds) { step_[call] = seconds; }
  void end_step(const Queueing& queueing, double seconds) {
    const bool counts = all_count_ || is_quiet(queueing.seconds() - stood_, seconds);
    if (!counts || seconds >= least_) return;
    std::swap(step_, quickest_);
    least_ = seconds;
  }
  /// Since the last time; empty where no step was quiet.
  std::vector<double> take() {
    if (std::exchange(least_, NONE) == NONE) return {};
    return quickest_;
  }

 private:
  static constexpr double NONE = std::numeric_limits<double>::infinity();
  const bool all_count_;
  std::vector<double> step_, quickest_;
  double stood_ = 0, least_ = NONE;
};

}  // namespace spillway
