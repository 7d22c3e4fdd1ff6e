// How fast bytes go to a lower tier and back, alone and both ways at once: what the cost model is fed with.
#pragma once
#include "core/result.hpp"
#include "runtime/device.hpp"

namespace spillway {

struct Bandwidth {
  double out_bytes_per_second = 0, in_bytes_per_second = 0;
  /// Both directions at once reach at least three quarters of what each reaches alone.
  bool full_duplex = false;
  /// How many times as long a copy takes while threads compute, and a computation while something is copied.
  double copies_beside = 1, calls_beside = 1;
};

/// Of the host's own memory, directory empty: RAM; beside so many threads that compute. Takes a moment: it moves some
/// hundred MiB.
Result<Bandwidth> measure_bandwidth(const std::string& directory, int threads);
/// Between an asynchronous device and pinned memory, by the device's own clock.
Result<Bandwidth> measure_device_bandwidth(const Device& device);

}  // namespace spillway
