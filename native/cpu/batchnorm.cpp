// Batch norm in parts: statistics, apply, the two halves of the backward, the frozen forms, the running averages.
// Each element-wise part is an affine map with per-channel coefficients, worked out in double at the head of the scratch.
#include "cpu/channel_sums.hpp"
#include "cpu/norm_coefficients.hpp"

namespace spillway::cpu {
namespace {

struct RunningMoments {
  RunningMoments(const View& mean_, const View& variance_, double eps_) : mean(floats(mean_)), variance(floats(variance_)), eps(eps_) {}
  Moments operator()(int64_t c) const { return {double(mean[c]), 1.0 / std::sqrt(double(variance[c]) + eps)}; }
  ChannelReader mean, variance;
  double eps;
};

/// y = (x - mean)·scale + beta.
template <class MomentsOf>
void normalise(const KernelCall& c, const MomentsOf& moments, const View& gamma, const View& beta) {
  const NormScale n = scale_of(moments, gamma, coefficients(c));
  map_channels<0, 3>(
      {&c.ins[0], 1}, {}, {n.mean, n.scale, floats(beta)}, c.outs[0],
      [](const auto& x, const auto& k) { return (x[0] - k[0]) * k[1] + k[2]; }, outside_of(c));
}

/// dgamma = Σ dy·(x - mean)·rstd and dbeta = Σ dy: the mean and rstd leave the sum.
template <class MomentsOf>
void reduce(const KernelCall& c, const MomentsOf& moments) {
  const int64_t channels = c.ins[0].dims[1];
  double* sums = static_cast<double*>(c.workspace);
  const Summands<2, 1> of{{&c.ins[0], 1}, {&c.ins[1]}, {moments.mean}};
  channel_sums<float, 2>(of, sums, centred_products, outside_of(c));
  for (int64_t ch = 0; ch < channels; ch++) {
    floats(c.outs[0])[ch] = float(sums[ch] * moments(ch).rstd);
    floats(c.outs[1])[ch] = float(sums[channels + ch]);
  }
}

/// Sums of two terms for each channel.
struct Reduction : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return channel_sums_bytes<2>(c.ins[0]); }
};

struct BnStats : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return Deviations::bytes(c.ins[0]); }
  static void run(const KernelCall& c) {
    const Deviations deviations(c.ins[0], c.workspace, outside_of(c));
    const ops::Statistics<float> stats(c.outs[0]);
    for (int64_t ch = 0; ch < c.ins[0].dims[1]; ch++) stats.put(ch, deviations.mean(ch), deviations.square(ch));
  }
};

struct BnApply : Affine<2> {
  static void run(const KernelCall& c) {
    const auto a = BnApplyAttrs::read(c.attrs);
    normalise(c, BatchMoments(c.ins[1], double(a.count), a.eps), c.ins[2], c.ins[3]);
  }
};

struct BnBackwardReduce : Reduction {
  static void run(const KernelCall& c) {
    const auto a = BnBwdReduceAttrs::read(c.attrs);
    reduce(c, BatchMoments(c.ins[2], double(a.count), a.eps));
  }
};

struct BnBackwardData : Affine<4> {
  static void run(const KernelCall& c) {
    const auto a = BnBwdDataAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[2], double(a.count), a.eps);
    const Coefficients k = coefficients(c);
    const NormScale n = scale_of(moments, c.ins[3], k);
    const NormGradient g = gradient_of(moments, c.ins + 4, k);
    map_channels<1, 4>(
        {&c.ins[0], 1}, {&c.ins[1]}, {n.mean, n.scale, g.tilt, g.offset}, c.outs[0],
        [](const auto& element, const auto& constant) {
          const auto& [x, dy] = element;
          const auto& [centre, factor, slant, level] = constant;
          return factor * (dy - level - (x - centre) * slant);
        },
        outside_of(c));
  }
};

struct BnFrozen : Affine<2> {
  static void run(const KernelCall& c) {
    normalise(c, RunningMoments(c.ins[1], c.ins[2], BnFrozenAttrs::read(c.attrs).eps), c.ins[3], c.ins[4]);
  }
};

struct BnFrozenBackwardData : Affine<1> {
  static void run(const KernelCall& c) {
    const double eps = BnFrozenBwdDataAttrs::read(c.attrs).eps;
    const Coefficients k = coefficients(c);
    float* scale = k[0];
    for (int64_t ch = 0; ch < k.channels; ch++)
      scale[ch] = float(double(floats(c.ins[2])[ch]) / std::sqrt(double(floats(c.ins[1])[ch]) + eps));
    map_channels<0, 1>({&c.ins[0], 1}, {}, {scale}, c.outs[0], [](const auto& dy, const auto& k) { return dy[0] * k[0]; });
  }
};

struct BnFrozenBackwardReduce : Reduction {
  static void run(const KernelCall& c) { reduce(c, RunningMoments(c.ins[2], c.ins[3], BnFrozenBwdReduceAttrs::read(c.attrs).eps)); }
};

struct BnRunning : PlainKernel {
  static void run(const KernelCall& c) {
    if (c.n_ins > 3 && *static_cast<const float*>(c.ins[3].data) == 0) return;
    const auto a = BnRunningAttrs::read(c.attrs);
    const int64_t channels = c.ins[1].dims[0];
    const ops::Statistics<float> stats(c.ins[0]);
    float *mean = floats(c.ins[1]), *variance = floats(c.ins[2]);
    const double keep = 1 - a.momentum, unbias = a.momentum / double(std::max<int64_t>(1, a.count - 1));
    for (int64_t ch = 0; ch < channels; ch++) {
      mean[ch] = float(keep * double(mean[ch]) + a.momentum * stats.mean(ch));
      variance[ch] = float(keep * double(variance[ch]) + unbias * stats.squares(ch));
    }
  }
};

}  // namespace

const KernelEntry bn_stats = entry<BnStats>();
const KernelEntry bn_apply = entry<BnApply>();
const KernelEntry bn_masked_apply = entry<BnApply>();
const KernelEntry bn_bwd_reduce = entry<BnBackwardReduce>();
const KernelEntry bn_bwd_data = entry<BnBackwardData>();
const KernelEntry bn_frozen = entry<BnFrozen>();
const KernelEntry bn_frozen_bwd_data = entry<BnFrozenBackwardData>();
const KernelEntry bn_frozen_bwd_reduce = entry<BnFrozenBackwardReduce>();
const KernelEntry bn_running = entry<BnRunning>();

}  // namespace spillway::cpu
