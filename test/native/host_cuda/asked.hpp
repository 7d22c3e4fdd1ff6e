// cuDNN itself behind the imitated CUDA, asked about a GPU that is not here. In: SPILLWAY_HOST_CUDA_CUDNN, the folder of libcudnn.so.9
// (9.8 or newer); SPILLWAY_HOST_CUDA_DRIVER, a libcuda.so.1 that it is content with (driver/stub.cpp); SPILLWAY_HOST_CUDA_GPU, the
// GPU's properties as JSON. Out: cuDNN's functions by name, for the plugin that looks for them; none where nobody asks.
// Invariant: engines are named and never run. What cuDNN cannot be asked ends the program with words.
#pragma once

namespace spillway::host_cuda {

bool asks_cudnn();
void* asked_function(const char* name);

}  // namespace spillway::host_cuda
