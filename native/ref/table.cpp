// The reference device's table: one entry for each operator of the op table.
#include "ref/kernels.hpp"

namespace spillway::ref {

const KernelEntry* kernel(uint32_t wire) {
  switch (wire) {
#define SPILLWAY_CASE(kind, number) \
  case number:                      \
    return &kind;
    SPILLWAY_OPS(SPILLWAY_CASE)
#undef SPILLWAY_CASE
    default:
      return nullptr;
  }
}

}  // namespace spillway::ref
