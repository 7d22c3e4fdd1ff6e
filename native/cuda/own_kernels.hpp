// The own kernels of the device, compiled by nvcc (own_kernels.cu), as the plugin calls them.
#pragma once
#include "cuda/kernels/layout.hpp"
#include "cuda/ready.hpp"

namespace spillway::cuda {

/// By wire number; null where there is none.
struct OwnFunctions {
  Status (*check)(const KernelCall&);
  int64_t (*workspace)(const KernelCall&);
  bool library;
  uint32_t together;  // calls that it takes in one go
};
const OwnFunctions* own_functions(uint32_t wire);
/// On a lane of the context's: an exchange between ranks on theirs.
Status run_own(const KernelCall& call, const Context& context, Lane lane = Lane::compute);
/// A checked call.
std::unique_ptr<Ready> ready_own(const KernelCall& call);
Status run_own_together(const KernelCall* calls, uint32_t n, const Context& context);

/// into (dense, channels-last, stored as x is) becomes that part of x.
Status gather_grid(const View& x, const Grid& grid, void* into, cudaStream_t stream);
/// dx becomes what `from` (dense, stored as dx is) holds of it, zero where the grid does not reach.
Status scatter_grid(const View& dx, const Grid& grid, const void* from, cudaStream_t stream);
/// Between [O, C, kH, kW] of floats and [O, kH, kW, C] of `stored`, f32 or a 16-bit float.
Status weights_to_channels_last(const View& w, DType stored, void* into, cudaStream_t stream);
Status weights_from_channels_last(const View& w, DType stored, const void* from, cudaStream_t stream);
/// y += bias, channel by channel (null: none), and what is not above zero times `slope` (1: nothing is rectified).
Status finish_pixels(const View& y, const View* bias, float slope, cudaStream_t stream);
int64_t bias_gradient_workspace(const View& dy);
Status sum_bias_gradient(const View& dy, const View& db, void* workspace, const Context& context);

}  // namespace spillway::cuda
