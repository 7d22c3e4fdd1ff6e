// The rates of a lower tier, out and in, alone and both at once: inputs of the cost model.
#pragma once
#include "core/result.hpp"
#include "runtime/device.hpp"

namespace spillway {

struct Bandwidth {
  double out_bytes_per_second = 0, in_bytes_per_second = 0;
  /// Both directions at once reach at least three quarters of their single rates.
  bool full_duplex = false;
  /// How many times as long a copy takes while threads compute, and a computation while something is copied.
  double copies_beside = 1, calls_beside = 1;
};

/// Measures copies to a file in the directory, or in RAM if it is empty, while other threads compute.
/// It copies several hundred MiB.
Result<Bandwidth> measure_bandwidth(const std::string& directory, int threads);
/// Between an asynchronous device and pinned memory, by the device's own clock.
Result<Bandwidth> measure_device_bandwidth(const Device& device);

}  // namespace spillway
