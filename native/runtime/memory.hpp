// How much memory this process may still take.
#pragma once
#include <cstdint>

namespace spillway {

/// What the system and the control group leave, whichever is less.
uint64_t available_memory();

}  // namespace spillway
