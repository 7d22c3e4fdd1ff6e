// cuDNN itself behind the imitated CUDA, asked about an absent GPU. In: SPILLWAY_HOST_CUDA_CUDNN, the folder of libcudnn.so.9 (9.8 or
// newer); SPILLWAY_HOST_CUDA_DRIVER, a libcuda.so.1 that satisfies it (driver/stub.cpp); SPILLWAY_HOST_CUDA_GPU, the GPU's properties as
// JSON. Out: cuDNN's functions by name, for the plugin that looks for them; none without a request. Invariant: engines are named and never
// run. An impossible request ends the program with words.
#pragma once

namespace spillway::host_cuda {

bool asks_cudnn();
void* asked_function(const char* name);

}  // namespace spillway::host_cuda
