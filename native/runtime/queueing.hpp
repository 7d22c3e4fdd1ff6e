// How long this process's threads have stood in line for a processor that somebody else had: the kernel says it for each of them.
// In: nothing; the threads that there are when it is made. Out: seconds so far, of all of them together.
// Invariant: where the system does not say, nobody ever stood in line.
#pragma once
#include <vector>

#include "runtime/handles.hpp"

namespace spillway {

class Queueing {
 public:
  Queueing();
  double seconds() const;

 private:
  std::vector<File> files_;
};

/// Returns true if a measurement was undisturbed, by the seconds that its threads waited for a
/// processor.
inline bool is_quiet(double stood, double seconds) { return stood <= 0.02 * seconds; }

}  // namespace spillway
