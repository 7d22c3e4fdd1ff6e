// Precedes native/cuda/launch.cuh: a kernel becomes a job of its stream, which runs its threads one after the other, those of a warp from
// the last to the first. Worked example: 300 items: two blocks of 256 threads, 212 of them idle.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "cuda/kernels/exec.hpp"

#undef __launch_bounds__
#define __launch_bounds__(...)

namespace spillway::host_cuda {

/// The coordinates of the running thread: one at a time.
struct Coordinates {
  uint32_t x;
};
extern Coordinates block_index, thread_index;

/// `arguments`: bytes that are copied; among them are the addresses which the kernel touches. `thread` runs one of its threads.
cudaError_t launch_grid(uint32_t blocks, uint32_t threads, cudaStream_t stream, const void* arguments, size_t bytes,
                        void (*thread)(const void*));

}  // namespace spillway::host_cuda

#define blockIdx ::spillway::host_cuda::block_index
#define threadIdx ::spillway::host_cuda::thread_index

namespace spillway::cuda {

constexpr uint32_t BLOCK_THREADS = 256, WARP_THREADS = 32;

template <class A>
cudaError_t launch(void (*kernel)(uint32_t, A), uint32_t blocks, cudaStream_t stream, uint32_t n, const A& a) {
  struct Held {
    void (*kernel)(uint32_t, A);
    uint32_t n;
    A a;
  } held{kernel, n, a};
  return host_cuda::launch_grid(blocks, BLOCK_THREADS, stream, &held, sizeof held, [](const void* h) {
    static_cast<const Held*>(h)->kernel(static_cast<const Held*>(h)->n, static_cast<const Held*>(h)->a);
  });
}

/// A block's phases, run by its first thread for all items: in any order, no phase begins before all have ended the one before.
template <class K>
cudaError_t launch_phases(uint32_t blocks, cudaStream_t stream, const K& k) {
  return host_cuda::launch_grid(blocks, WARP_THREADS, stream, &k, sizeof k, [](const void* h) {
    if (host_cuda::thread_index.x != 0) return;
    const auto shared = std::make_unique<typename K::Shared>();
    phases_on_host(*static_cast<const K*>(h), *shared, host_cuda::block_index.x, std::make_integer_sequence<int, K::PHASES>());
  });
}

}  // namespace spillway::cuda
