// The processors of this process: how many it may keep busy, and where its threads go. In: the affinity mask, the quotas of
// the control groups above, the user's OpenMP settings. Out: a number of threads; the processor of each compute thread, and
// those that copies may use. Invariant: nothing goes outside the mask, and where the user has placed threads, we do not.
#pragma once
#include <string>
#include <vector>

#include "runtime/device.hpp"

namespace spillway {

/// Numbers of processors, ascending.
using Processors = std::vector<int>;

/// Those that the calling thread may run on.
Processors allowed_processors();

/// Processors' worth of time that control groups grant, version 2 or 1, the least of the group and those above it; 0: no limit.
double granted_processors(const std::string& root = "/sys/fs/cgroup", const std::string& membership = "/proc/self/cgroup");

/// The first number of OMP_NUM_THREADS; 0 when it is not set or not a number.
int threads_asked_for();
/// Returns true if the environment places OpenMP's threads, or forbids binding them.
bool user_places_threads();

/// Cores that this process may keep busy: of the mask, no more than the quota.
int available_cores();
/// The default: OMP_NUM_THREADS, else the available cores.
int default_threads();

struct Placement {
  Processors compute;  // one for each compute thread; empty: the system decides
  Processors copies;   // for the threads that carry bytes; empty: anywhere
};

/// Threads are bound if they take more than half of the processors. Fewer threads find free ones by themselves, and bound
/// ones would disturb another process that is bound to the same. The other processors are for copies.
Placement placement(const Processors& allowed, int threads, double granted, bool user_places);

/// Binds the compute threads of the calling thread for as long as it lives, then lets them go where they might before.
class BoundThreads {
 public:
  BoundThreads(const Device& device, int threads);
  ~BoundThreads();
  BoundThreads(const BoundThreads&) = delete;
  BoundThreads& operator=(const BoundThreads&) = delete;

 private:
  const Device& device_;
  Processors before_;  // empty: nothing was bound
};

/// The calling thread runs on these from now on; empty: nothing changes.
void run_on(const Processors& processors);

}  // namespace spillway
