// How fast bytes go to a lower tier and back, alone and both ways at once: what the cost model is fed with.
#pragma once
#include "plan/result.hpp"

namespace spillway {

struct Bandwidth {
  double out_bytes_per_second = 0, in_bytes_per_second = 0;
  /// Both directions at once reach at least three quarters of what each reaches alone.
  bool full_duplex = false;
};

/// Directory empty: RAM. Takes a moment: it moves some hundred MiB.
Result<Bandwidth> measure_bandwidth(const std::string& directory);

}  // namespace spillway
