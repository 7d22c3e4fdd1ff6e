// Kernels are written once, as work items without an order. An Exec runs them: threads of the GPU (cuda/exec.cuh), or a loop on
// the host, for tests against the reference device without a GPU. In: each(n, f) runs f(i) for i in [0, n). Invariant: no item of
// one each() reads a value that another item writes; one each() ends before the next begins. blocks(n, k) runs n blocks of items that share
// memory and take the phases of k together.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/kernel.hpp"
#include "ops/both.hpp"
#include "ops/collective.hpp"

namespace spillway::cuda {

/// Libraries fail near 2^31 elements, and items are counted in 32 bits: plans tile below it.
constexpr int64_t MOST_ELEMENTS = int64_t(1) << 31;
/// Rows and columns of a whole value: where a window ends behind the last is counted in 32 bits, too.
constexpr int64_t MOST_ROWS = int64_t(1) << 30;

#ifdef __CUDA_ARCH__
#define SPILLWAY_PRAGMA(words) _Pragma(#words)
#define SPILLWAY_UNROLL(n) SPILLWAY_PRAGMA(unroll n)
#else
#define SPILLWAY_UNROLL(n)
#endif

/// Items of a block.
constexpr uint32_t BLOCK_ITEMS = 256;
/// The number of counters. Blocks of one launch that wait for each other share one. A counter that all have reached is zero again.
constexpr uint32_t ARRIVALS = 1024;

/// Returns true if the block of the calling item is the last of the writing blocks. Each of these calls published() before.
SPILLWAY_BOTH inline bool arrives_last(uint32_t* counter, uint32_t blocks) {
#ifdef __CUDA_ARCH__
  __threadfence();
  return atomicInc(counter, blocks - 1) == blocks - 1;
#else
  *counter = (*counter + 1) % blocks;
  return *counter == 0;
#endif
}
SPILLWAY_BOTH inline void published() {
#ifdef __CUDA_ARCH__
  __threadfence();
#endif
}
/// Reads the published value of another block, and not this processor's cached one.
SPILLWAY_BOTH inline double of_other_blocks(const double* at) {
#ifdef __CUDA_ARCH__
  return __ldcg(at);
#else
  return *at;
#endif
}

/// A block's phases on one thread of the host: those of an item in turn, and all items before the next phase.
template <class K, int... P>
void phases_on_host(const K& k, typename K::Shared& shared, uint32_t block, std::integer_sequence<int, P...>) {
  const auto all_items = [](auto phase) {
    for (uint32_t item = BLOCK_ITEMS; item-- > 0;) phase(item);
  };
  (all_items([&](uint32_t item) { k.template run<P>(shared, block, item); }), ...);
}

class HostExec {
 public:
  explicit HostExec(const StepContext* step) : step_(step) {}
  template <class F>
  void each(int64_t n, F f) {
    for (int64_t i = 0; i < n; i++) f(uint32_t(i));
  }
  /// k.run<phase>(shared, block, item) for the K::PHASES in turn; no item of a block begins one before all have ended the one before.
  template <class K>
  void blocks(int64_t n, const K& k) {
    const auto shared = std::make_unique<typename K::Shared>();
    for (int64_t block = 0; block < n; block++) phases_on_host(k, *shared, uint32_t(block), std::make_integer_sequence<int, K::PHASES>());
  }
  /// Exchanges bytes with other ranks, after all earlier work and before all later work.
  void trade(const ops::Group& group, const std::vector<Parcel>& sends, const std::vector<Parcel>& takes) {
    ops::trade(group.comm, sends, takes);
  }
  uint32_t* arrivals() { return arrivals_; }
  /// The scalars of the step, valid when the items run.
  const StepContext* step() const { return step_; }

 private:
  const StepContext* step_;
  uint32_t arrivals_[ARRIVALS] = {};
};

}  // namespace spillway::cuda
