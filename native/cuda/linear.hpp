// The fully connected layer and its gradients through cuBLASLt. In: a checked call. Out: scratch bytes, or the work on a
// stream. Invariant: a product gets one algorithm for the life of the process.
#pragma once
#include "cuda/context.hpp"

namespace spillway::cuda {

Result<int64_t> linear_workspace(const KernelCall& call, Precision precision);
Status run_linear(const KernelCall& call, const Context& context);

}  // namespace spillway::cuda
