// The code for nvcc: the table of own kernels for the GPU, and the few that accompany a library's.
#include <algorithm>
#include <array>

#include "cuda/exec.cuh"
#include "cuda/kernels/layout.hpp"
#include "cuda/kernels/table.hpp"
#include "cuda/own_kernels.hpp"

namespace spillway::cuda {
namespace {

/// f(exec, something of the stored type).
template <class F>
Status launched(cudaStream_t stream, DType stored, F f) {
  GpuExec exec(stream, nullptr, nullptr);
  with_stored(stored, [&](auto t) { f(exec, t); });
  return exec.status();
}

/// Above the largest wire number of the op table.
#define SPILLWAY_WIRE(kind, wire) , wire
constexpr uint32_t WIRES = std::max({0 SPILLWAY_OPS(SPILLWAY_WIRE)}) + 1;
#undef SPILLWAY_WIRE

}  // namespace

const OwnFunctions* own_functions(uint32_t wire) {
  static const auto known = [] {  // filled once, by the first of several threads
    std::array<OwnFunctions, WIRES> all{};
    for (uint32_t kind = 0; kind < all.size(); kind++)
      if (const KernelFunctions<GpuExec>* f = functions<GpuExec>(kind)) all[kind] = {f->check, f->workspace, f->library, f->together};
    return all;
  }();
  return wire < known.size() && known[wire].check ? &known[wire] : nullptr;
}

Status run_own(const KernelCall& call, const Context& context, Lane lane) {
  GpuExec exec(context.stream(lane), context.step(), context.arrivals(), context.ranks());
  functions<GpuExec>(call.kind)->run(exec, call);
  return exec.status();
}

Status run_own_together(const KernelCall* calls, uint32_t n, const Context& context) {
  GpuExec exec(context.stream(Lane::compute), context.step(), context.arrivals());
  functions<GpuExec>(calls[0].kind)->run_together(exec, calls, n);
  return exec.status();
}

Status gather_grid(const View& x, const Grid& grid, void* into, cudaStream_t stream) {
  return launched(stream, x.dtype, [&](GpuExec& e, auto t) { gather(e, x, grid, static_cast<decltype(t)*>(into)); });
}
Status scatter_grid(const View& dx, const Grid& grid, const void* from, cudaStream_t stream) {
  return launched(stream, dx.dtype, [&](GpuExec& e, auto t) { scatter(e, dx, grid, static_cast<const decltype(t)*>(from)); });
}
Status weights_to_channels_last(const View& w, DType stored, void* into, cudaStream_t stream) {
  return launched(stream, stored, [&](GpuExec& e, auto t) { pack_weights(e, w, static_cast<decltype(t)*>(into)); });
}
Status weights_from_channels_last(const View& w, DType stored, const void* from, cudaStream_t stream) {
  return launched(stream, stored, [&](GpuExec& e, auto t) { unpack_weights(e, w, static_cast<const decltype(t)*>(from)); });
}
Status finish_pixels(const View& y, const View* bias, float slope, cudaStream_t stream) {
  const float* const b = bias ? floats(*bias) : nullptr;
  return launched(stream, y.dtype, [&](GpuExec& e, auto t) { finish_channels<decltype(t)>(e, y, b, slope); });
}
int64_t bias_gradient_workspace(const View& dy) { return bias_gradient_bytes(dy); }
Status sum_bias_gradient(const View& dy, const View& db, void* workspace, const Context& context) {
  GpuExec exec(context.stream(Lane::compute), nullptr, context.arrivals());
  with_stored(dy.dtype, [&](auto t) { bias_gradient<decltype(t)>(exec, dy, db, workspace); });
  return exec.status();
}

}  // namespace spillway::cuda
