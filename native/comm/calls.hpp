// Calls of MPI, one at a time. In: a function that calls MPI and does not wait there. Out: its result.
// Invariant: no two threads of this process are in MPI at once. Every MPI with threads supports that.
#pragma once
#include <mutex>

namespace spillway {

inline std::mutex calls;
template <class Call>
auto called(Call call) {
  const std::lock_guard lock(calls);
  return call();
}

}  // namespace spillway
