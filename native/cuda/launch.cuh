// How a kernel is started: the one place with the launch syntax, which only nvcc knows. In: a __global__ function, blocks of
// BLOCK_THREADS, a stream, arguments. Out: the runtime's answer. Tests put a header of this name before it that runs the
// same kernels on the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

namespace spillway::cuda {

constexpr uint32_t BLOCK_THREADS = 256, WARP_THREADS = 32;

template <class... P, class... A>
cudaError_t launch(void (*kernel)(P...), uint32_t blocks, cudaStream_t stream, const A&... arguments) {
  kernel<<<blocks, BLOCK_THREADS, 0, stream>>>(arguments...);
  return cudaGetLastError();
}

template <class K, int... P>
__device__ void phases_in_turn(const K& k, typename K::Shared& shared, std::integer_sequence<int, P...>) {
  ((k.template run<P>(shared, blockIdx.x, threadIdx.x), __syncthreads()), ...);
}

template <class K>
__global__ void __launch_bounds__(BLOCK_THREADS) run_phases(const K k) {
  __shared__ typename K::Shared shared;
  phases_in_turn(k, shared, std::make_integer_sequence<int, K::PHASES>());
}

template <class K>
cudaError_t launch_phases(uint32_t blocks, cudaStream_t stream, const K& k) {
  return launch(run_phases<K>, blocks, stream, k);
}

}  // namespace spillway::cuda
