// How much memory this process may still take.
#pragma once
#include <cstdint>

namespace spillway {

/// The available memory of the system or of the control group, whichever is less.
uint64_t available_memory();

}  // namespace spillway
