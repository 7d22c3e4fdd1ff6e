// Batch norm in parts: statistics, apply, the two halves of the backward, the frozen forms, the running averages.
// Each element-wise part is an affine map in float. The coefficients of its channels are computed in double, once a block.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/batchnorm.hpp"

namespace spillway::cuda {

SPILLWAY_BOTH inline double reciprocal_root(double x) {
#ifdef __CUDA_ARCH__
  return rsqrt(x);  // without a division
#else
  return 1.0 / sqrt(x);
#endif
}

SPILLWAY_BOTH inline float reciprocal_root(float x) { return 1 / sqrtf(x); }

/// Mean and reciprocal deviation of a channel, of a batch or of the running averages.
struct Moments {
  double mean, rstd;
};

struct BatchMoments {
  BatchMoments(const View& view, double count, double eps_) : stats(view), means(floats(view)), share(1 / count), eps(eps_) {}
  SPILLWAY_BOTH Moments of(uint32_t c) const { return {stats.mean(c), reciprocal_root(stats.squares(c) * share + eps)}; }
  ops::Statistics<float> stats;
  const float* means;
  double share, eps;  // the share of an element in a mean
};

struct RunningMoments {
  RunningMoments(const View& mean, const View& variance_, double eps_) : means(floats(mean)), variance(floats(variance_)), eps(eps_) {}
  SPILLWAY_BOTH Moments of(uint32_t c) const { return {double(means[c]), reciprocal_root(double(variance[c]) + eps)}; }
  const float *means, *variance;
  double eps;
};

/// The normalisation of a channel's values: z = (x - mean)·scale + shift.
struct NormAt {
  float mean, scale, shift;
  /// The same arithmetic as in the forward pass. With it, the backward pass finds the sign of a
  /// result.
  SPILLWAY_BOTH float z(float deviation) const { return fmaf(deviation, scale, shift); }
};

template <class MomentsOf>
struct NormOf {
  MomentsOf moments;
  const float *gamma, *beta;
  SPILLWAY_BOTH NormAt at(uint32_t ch) const {
    const Moments m = moments.of(ch);
    return {float(m.mean), float(m.rstd * double(gamma[ch])), beta[ch]};
  }
  SPILLWAY_BOTH float of(const NormAt& k, const float* x) const { return (x[0] - k.mean) * k.scale + k.shift; }
};

template <class MomentsOf>
NormOf<MomentsOf> norm_of(const KernelCall& c, MomentsOf moments, uint32_t gamma_input) {
  return {moments, floats(c.ins[gamma_input]), floats(c.ins[gamma_input + 1])};
}

/// Adds terms of dgamma = Σ dz·(x - mean)·rstd and dbeta = Σ dz. The gate selects the gradients that become dz. A gate has at(channel),
/// which begins with the mean, bits(pixel, channel), passed(at, deviation, dy, bit).
template <int LANES, class Gate, class At>
SPILLWAY_BOTH void add_gradients(const Gate& gate, const AtChannels<At, LANES>& of, const float (&values)[LANES],
                                 const float (&gradients)[LANES], uint32_t bits, float (&sum)[LANES][2]) {
  for (int lane = 0; lane < LANES; lane++) {
    const float deviation = values[lane] - of.at[lane].mean;
    const float dz = gate.passed(of.at[lane], deviation, gradients[lane], bits >> lane & 1);
    sum[lane][0] += deviation * dz;
    sum[lane][1] += dz;
  }
}

template <class T, class Gate>
struct GradientTerm {
  using Part = float;
  PixelsOf<T> x, dy;
  Gate gate;
  SPILLWAY_BOTH auto at(uint32_t ch) const { return gate.at(ch); }
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void add(const Of& of, Nothing, uint32_t pixel, uint32_t ch, float (&sum)[LANES][2]) const {
    float values[LANES], gradients[LANES];
    fetch<LANES>(x.at(pixel) + ch, values);
    fetch<LANES>(dy.at(pixel) + ch, gradients);
    add_gradients<LANES>(gate, of, values, gradients, gate.bits(pixel, ch), sum);
  }
};

/// Nothing stood behind the norm.
struct OpenGate {
  const float* means;
  struct At {
    float mean;
  };
  SPILLWAY_BOTH At at(uint32_t ch) const { return {means[ch]}; }
  SPILLWAY_BOTH uint32_t bits(uint32_t, uint32_t) const { return 0; }
  SPILLWAY_BOTH float passed(const At&, float, float dy, uint32_t) const { return dy; }
};

/// x is input 0, dy input 1.
template <class T, class Exec, class MomentsOf, class Gate>
void reduce(Exec& exec, const KernelCall& c, MomentsOf moments, Gate gate) {
  float *const dgamma = floats(c.outs[0]), *const dbeta = floats(c.outs[1]);
  const GradientTerm<T, Gate> term{PixelsOf<T>(c.ins[0]), PixelsOf<T>(c.ins[1]), gate};
  sum_pixels<2, T>(exec, c.ins[0], has_wide_pixels<T>(c.ins[0]) && has_wide_pixels<T>(c.ins[1]), c.workspace, term,
                   [=] SPILLWAY_BOTH(uint32_t ch, const double* sum) {
                     dgamma[ch] = float(sum[0] * moments.of(ch).rstd);
                     dbeta[ch] = float(sum[1]);
                   });
}

/// dx = scale·(dz - offset - (x - mean)·tilt) by channel.
struct NormGradientAt {
  float mean, scale, tilt, offset;
  SPILLWAY_BOTH float dx(float x, float dz) const { return scale * (dz - offset - (x - mean) * tilt); }
};

struct NormGradient {
  BatchMoments moments;
  const float *gamma, *dgamma, *dbeta;
  SPILLWAY_BOTH NormGradientAt at(uint32_t ch) const {
    const Moments m = moments.of(ch);
    return {float(m.mean), float(m.rstd * double(gamma[ch])), float(double(dgamma[ch]) * m.rstd * moments.share),
            float(double(dbeta[ch]) * moments.share)};
  }
  SPILLWAY_BOTH float of(const NormGradientAt& k, const float* v) const { return k.dx(v[0], v[1]); }
};

/// From gamma and dgamma at these inputs, and dbeta behind the latter.
inline NormGradient norm_gradient(const KernelCall& c, BatchMoments moments, uint32_t gamma_input, uint32_t dgamma_input) {
  return {moments, floats(c.ins[gamma_input]), floats(c.ins[dgamma_input]), floats(c.ins[dgamma_input + 1])};
}

struct ChannelReduction : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<2>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
};

/// A value near to those of a channel: squares of a mean far from zero would cancel, those of deviations from it do not.
struct NearTo {
  float value;
};

template <int LANES>
SPILLWAY_BOTH void add_moments(const AtChannels<NearTo, LANES>& first, const float (&values)[LANES], float (&sum)[LANES][2]) {
  for (int lane = 0; lane < LANES; lane++) {
    const float deviation = values[lane] - first.at[lane].value;
    sum[lane][0] += deviation;
    sum[lane][1] += deviation * deviation;
  }
}

/// Deviations from the first pixel.
template <class T>
struct MomentTerm {
  using Part = float;
  PixelsOf<T> x;
  SPILLWAY_BOTH NearTo at(uint32_t ch) const { return NearTo{float(x.data[ch])}; }
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void add(const Of& first, Nothing, uint32_t pixel, uint32_t ch, float (&sum)[LANES][2]) const {
    float values[LANES];
    fetch<LANES>(x.at(pixel) + ch, values);
    add_moments<LANES>(first, values, sum);
  }
};

template <>
struct Kernel<OpKind::bn_stats> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]);
    const double count = double(ops::pixels(c.ins[0]));
    const ops::Statistics<float> stats(c.outs[0]);
    sum_pixels<2, T>(exec, c.ins[0], has_wide_pixels<T>(c.ins[0]), c.workspace, MomentTerm<T>{x},
                     [=] SPILLWAY_BOTH(uint32_t ch, const double* sum) {
                       const double squares = sum[1] - sum[0] * sum[0] / count;
                       stats.put(ch, double(float(x.data[ch])) + sum[0] / count, squares > 0 ? squares : 0);
                     });
  }
};

template <>
struct Kernel<OpKind::bn_apply> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnApplyAttrs::read(c.attrs);
    map_by_channel<T, 1>(exec, c.outs[0], {&c.ins[0]}, norm_of(c, BatchMoments(c.ins[1], double(a.count), a.eps), 2));
  }
};

template <>
struct Kernel<OpKind::bn_bwd_reduce> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnBwdReduceAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[2], double(a.count), a.eps);
    reduce<T>(exec, c, moments, OpenGate{moments.means});
  }
};

template <>
struct Kernel<OpKind::bn_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnBwdDataAttrs::read(c.attrs);
    map_by_channel<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]}, norm_gradient(c, BatchMoments(c.ins[2], double(a.count), a.eps), 3, 4));
  }
};

template <>
struct Kernel<OpKind::bn_frozen> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    map_by_channel<T, 1>(exec, c.outs[0], {&c.ins[0]}, norm_of(c, RunningMoments(c.ins[1], c.ins[2], BnFrozenAttrs::read(c.attrs).eps), 3));
  }
};

struct FrozenGradient {
  const float *variance, *gamma;
  double eps;
  SPILLWAY_BOTH float at(uint32_t ch) const { return float(double(gamma[ch]) * reciprocal_root(double(variance[ch]) + eps)); }
  SPILLWAY_BOTH float of(float scale, const float* dy) const { return dy[0] * scale; }
};

template <>
struct Kernel<OpKind::bn_frozen_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    map_by_channel<T, 1>(exec, c.outs[0], {&c.ins[0]},
                         FrozenGradient{floats(c.ins[1]), floats(c.ins[2]), BnFrozenBwdDataAttrs::read(c.attrs).eps});
  }
};

template <>
struct Kernel<OpKind::bn_frozen_bwd_reduce> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const RunningMoments moments(c.ins[2], c.ins[3], BnFrozenBwdReduceAttrs::read(c.attrs).eps);
    reduce<T>(exec, c, moments, OpenGate{moments.means});
  }
};

template <>
struct Kernel<OpKind::bn_running> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnRunningAttrs::read(c.attrs);
    const ops::Statistics<float> stats(c.ins[0]);
    float *const mean = floats(c.ins[1]), *const variance = floats(c.ins[2]);
    const float* const finite = c.n_ins > 3 ? floats(c.ins[3]) : nullptr;
    const double momentum = a.momentum, keep = 1 - momentum, unbias = momentum / double(a.count > 1 ? a.count - 1 : 1);
    exec.each(c.ins[1].dims[0], [=] SPILLWAY_BOTH(uint32_t ch) {
      if (finite && *finite == 0) return;
      mean[ch] = float(keep * double(mean[ch]) + momentum * stats.mean(ch));
      variance[ch] = float(keep * double(variance[ch]) + unbias * stats.squares(ch));
    });
  }
};

}  // namespace spillway::cuda
