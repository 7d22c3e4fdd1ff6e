// serial
// The quickest quiet step, and how long a thread stands in line for a processor that another one has.
#include <sched.h>

#include <atomic>
#include <thread>

#include "runtime/clock.hpp"
#include "runtime/cores.hpp"
#include "runtime/quiet_steps.hpp"
#include "test/native/checking.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

/// However busy the machine is, nobody stands in line for a hundredth of this; and nobody for less than nothing.
constexpr double LONG = 1e9, NEGATIVE = -1;

void step(QuietSteps& steps, const Queueing& queueing, std::initializer_list<double> calls, double seconds) {
  steps.begin_step(queueing);
  uint32_t i = 0;
  for (const double c : calls) steps.count(i++, c);
  steps.end_step(queueing, seconds);
}

void quickest_quiet_step() {
  const Queueing queueing;
  QuietSteps steps(2, false);
  CHECK(steps.take().empty());
  step(steps, queueing, {1, 10}, LONG);
  step(steps, queueing, {100, 1000}, NEGATIVE);  // disturbed
  step(steps, queueing, {3, 30}, LONG / 2);
  step(steps, queueing, {2, 20}, LONG);
  CHECK((steps.take() == std::vector<double>{3, 30}));
  CHECK(steps.take().empty());
  step(steps, queueing, {5, 50}, LONG);
  CHECK((steps.take() == std::vector<double>{5, 50}));
}

void quickest_step_beside_copies() {
  const Queueing queueing;
  QuietSteps steps(1, true);
  step(steps, queueing, {7}, 2);
  step(steps, queueing, {6}, 1);
  step(steps, queueing, {8}, 3);
  CHECK(steps.take() == std::vector<double>{6});
}

/// Two threads on one processor: each stands in line while the other computes.
void standing_in_line() {
  const Processors allowed = allowed_processors();
  CHECK(!allowed.empty());
  std::atomic<bool> end = false;
  std::thread other([&] {
    run_on({allowed.front()});
    while (!end) {
    }
  });
  std::thread one([&] {
    run_on({allowed.front()});
    const Queueing queueing;
    const double before = queueing.seconds();
    const Clock::time_point start = Clock::now();
    while (seconds_since(start) < 0.2) {
    }
    CHECK(!is_quiet(queueing.seconds() - before, seconds_since(start)));
  });
  one.join();
  end = true;
  other.join();
}

}  // namespace

int main() {
  test("the quickest quiet step", quickest_quiet_step);
  test("the quickest step beside copies", quickest_step_beside_copies);
  test("standing in line", standing_in_line);
  return finish();
}
