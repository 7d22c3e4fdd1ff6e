// The kernels of the imitation.
#pragma once
#include "runtime/kernel.hpp"

namespace spillway::imitation {

/// Null when there is none.
const KernelEntry* kernel(uint32_t wire);

}  // namespace spillway::imitation
