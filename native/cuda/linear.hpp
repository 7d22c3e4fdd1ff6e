// The fully connected layer and its gradients through cuBLASLt. In: a checked call. Out: its ways, or the call prepared
// in one. Invariant: a product gets one algorithm for the life of the process.
#pragma once
#include "cuda/ready.hpp"

namespace spillway::cuda {

Result<std::vector<Way>> linear_ways(const KernelCall& call, Precision precision, uint32_t most);
Result<std::unique_ptr<Ready>> ready_linear(const KernelCall& call, Precision precision);

}  // namespace spillway::cuda
