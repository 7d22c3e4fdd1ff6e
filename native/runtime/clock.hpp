// Seconds on the steady clock.
#pragma once
#include <chrono>

namespace spillway {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); }
inline double seconds_since(Clock::time_point from) { return seconds_between(from, Clock::now()); }

}  // namespace spillway
