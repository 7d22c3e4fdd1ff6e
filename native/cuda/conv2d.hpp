// Convolution and its gradients through cuDNN. In: a checked call. Out: its ways, or the call prepared in one.
// Invariant: a problem gets one engine for the life of the process; where cuDNN has none, the device's own kernel runs.
#pragma once
#include "cuda/ready.hpp"

namespace spillway::cuda {

Result<std::vector<Way>> convolution_ways(const KernelCall& call, Precision precision, uint32_t most);
Result<std::unique_ptr<Ready>> ready_convolution(const KernelCall& call, Precision precision);

}  // namespace spillway::cuda
