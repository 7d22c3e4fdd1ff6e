// The kernels of the imitation: those that the cuda device has of its own, compiled for the host, and the reference's.
#pragma once
#include "core/kernel.hpp"

namespace spillway::imitation {

/// The cuda device's own kernel; null where it has none.
const KernelEntry* own_kernel(uint32_t wire);
/// Null when there is none.
const KernelEntry* kernel(uint32_t wire);

/// How many calls the device's own kernel takes in one go, and those prepared calls in one go.
uint32_t most_together(uint32_t wire);
void run_together(const KernelCall* calls, uint32_t n);
/// Returns true if a library would run it on the GPU.
bool is_library(uint32_t wire);

}  // namespace spillway::imitation
