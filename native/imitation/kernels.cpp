// What the imitation computes with.
#include "imitation/kernels.hpp"

namespace spillway::imitation {

const KernelEntry* kernel(uint32_t wire) { return ref::kernel(wire); }

}  // namespace spillway::imitation
