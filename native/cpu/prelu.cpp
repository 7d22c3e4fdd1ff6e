// The leaky rectifier with trained slopes, and its gradients.
#include "ops/prelu.hpp"

#include <numeric>

#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"

namespace spillway::cpu {
namespace {

/// A slope for each channel: a shared one is repeated in the workspace.
struct WithSlopes : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return ops::slope_step(c) ? 0 : c.ins[0].dims[1] * int64_t(sizeof(float)); }
  static const float* slopes(const KernelCall& c, const View& slope) {
    if (ops::slope_step(c)) return floats(slope);
    float* const repeated = static_cast<float*>(c.workspace);
    std::fill_n(repeated, c.ins[0].dims[1], *floats(slope));
    return repeated;
  }
};

/// `passed` where x is positive, and a slope times it elsewhere, of floats or blocks of them.
constexpr auto sloped = []<class V>(const V& x, const V& passed, const V& slope) { return passed * (x <= 0 ? slope : V{} + 1.0f); };

struct Prelu : WithSlopes {
  static void run(const KernelCall& c) {
    map_channels<0, 1>({&c.ins[0], 1}, {}, {slopes(c, c.ins[1])}, c.outs[0],
                       [](const auto& x, const auto& slope) { return sloped(x[0], x[0], slope[0]); });
  }
};

struct PreluBackward : WithSlopes {
  static void run(const KernelCall& c) {
    map_channels<1, 1>({&c.ins[0], 1}, {&c.ins[1]}, {slopes(c, c.ins[2])}, c.outs[0],
                       [](const auto& element, const auto& slope) { return sloped(element[0], element[1], slope[0]); });
  }
};

struct SlopeGradient : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return channel_sums_bytes<1>(c.ins[0]); }
  static void run(const KernelCall& c) {
    const int64_t channels = c.ins[0].dims[1];
    double* const totals = static_cast<double*>(c.workspace);
    channel_sums<float, 1>(Summands<2, 0>{{&c.ins[0], 1}, {&c.ins[1]}, {}}, totals,
                           []<class V>(const std::array<V, 2>& element, const auto&) {
                             return std::array{(element[0] <= 0 ? element[0] : V{}) * element[1]};
                           });
    float* const dslope = floats(c.outs[0]);
    if (ops::slope_step(c))
      std::copy_n(totals, channels, dslope);
    else
      *dslope = float(std::accumulate(totals, totals + channels, 0.0));
  }
};

}  // namespace

const KernelEntry prelu = entry<Prelu>();
const KernelEntry prelu_bwd_data = entry<PreluBackward>();
const KernelEntry prelu_bwd_weights = entry<SlopeGradient>();

}  // namespace spillway::cpu
