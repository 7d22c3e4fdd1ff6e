// Convolution and its gradients through cuDNN. In: a checked call. Out: scratch bytes, or the work on a stream.
// Invariant: a problem gets one engine for the life of the process; where cuDNN has none, the device's own kernel runs.
#pragma once
#include "cuda/context.hpp"

namespace spillway::cuda {

Result<int64_t> convolution_workspace(const KernelCall& call, Precision precision);
Status run_convolution(const KernelCall& call, const Context& context);

}  // namespace spillway::cuda
