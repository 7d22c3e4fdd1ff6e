// The cpu device's table, one entry for each operator of the op table, and its thread count.
#include <omp.h>

#include "cpu/kernels.hpp"
#include "runtime/cores.hpp"

namespace spillway::cpu {

void set_threads(int threads) { omp_set_num_threads(threads); }

int use_threads() { return omp_get_max_threads(); }

void bind_threads(const int* processors, uint32_t count, bool each) {
#pragma omp parallel
  {
    const uint32_t own = uint32_t(omp_get_thread_num());
    if (!each)
      run_on({processors, processors + count});
    else if (own < count)
      run_on({processors[own]});
  }
}

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

}  // namespace spillway::cpu
