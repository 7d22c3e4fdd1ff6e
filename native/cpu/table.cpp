// The cpu device's table, one entry for each operator of the op table, and its thread count.
#include <omp.h>

#include <atomic>

#include "cpu/kernels.hpp"

namespace spillway::cpu {
namespace {
std::atomic<int> wanted_threads{0};  // 0: what OpenMP chooses
}

void set_threads(int threads) { wanted_threads = threads; }

int use_threads() {
  const int wanted = wanted_threads;
  if (wanted > 0 && omp_get_max_threads() != wanted) omp_set_num_threads(wanted);
  return omp_get_max_threads();
}

const KernelEntry* kernel(uint32_t wire) {
  switch (wire) {
#define SPILLWAY_CASE(kind, number) \
  case number: return &kind;
    SPILLWAY_OPS(SPILLWAY_CASE)
#undef SPILLWAY_CASE
    default: return nullptr;
  }
}

}  // namespace spillway::cpu
