// How a kernel is started: the one place with the launch syntax, which only nvcc knows. In: a __global__ function, blocks of
// BLOCK_THREADS, a stream, arguments. Out: the runtime's answer. Tests put a header of this name before it that runs the
// same kernels on the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace spillway::cuda {

constexpr uint32_t BLOCK_THREADS = 256, WARP_THREADS = 32;

template <class... P, class... A>
cudaError_t launch(void (*kernel)(P...), uint32_t blocks, cudaStream_t stream, const A&... arguments) {
  kernel<<<blocks, BLOCK_THREADS, 0, stream>>>(arguments...);
  return cudaGetLastError();
}

}  // namespace spillway::cuda
