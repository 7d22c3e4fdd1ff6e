// What each call takes in a step. In: the calls of each step, as they end. Out: their means over the steps in whose way nothing else
// ran. Invariant: a step that was disturbed counts as a whole or not at all.
#pragma once
#include "runtime/queueing.hpp"

namespace spillway {

class QuietSteps {
 public:
  explicit QuietSteps(size_t calls) : step_(calls), sum_(calls) {}
  void begin_step(const Queueing& queueing) { stood_ = queueing.seconds(); }
  void count(uint32_t call, double seconds) { step_[call] = seconds; }
  void end_step(const Queueing& queueing, double seconds) {
    if (!is_quiet(queueing.seconds() - stood_, seconds)) return;
    for (size_t i = 0; i < sum_.size(); i++) sum_[i] += step_[i];
    steps_++;
  }
  /// Since the last time; empty where no step was quiet.
  std::vector<double> take() {
    if (steps_ == 0) return {};
    std::vector<double> mean(sum_.size());
    std::swap(mean, sum_);
    for (double& seconds : mean) seconds /= steps_;
    steps_ = 0;
    return mean;
  }

 private:
  std::vector<double> step_, sum_;
  uint32_t steps_ = 0;
  double stood_ = 0;
};

}  // namespace spillway
