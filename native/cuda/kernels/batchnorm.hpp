// Batch norm in parts: statistics, apply, the two halves of the backward, the frozen forms, the running averages.
// Each element-wise part is an affine map with per-channel coefficients, worked out in double at the head of the scratch.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/batchnorm.hpp"

namespace spillway::cuda {

/// Mean and reciprocal deviation of a channel, of a batch or of the running averages.
struct Moments {
  double mean, rstd;
};

struct BatchMoments {
  BatchMoments(const View& view, double count_, double eps_) : stats(view), means(floats(view)), count(count_), eps(eps_) {}
  SPILLWAY_BOTH Moments of(uint32_t c) const { return {stats.mean(c), 1.0 / sqrt(stats.squares(c) / count + eps)}; }
  ops::Statistics<float> stats;
  const float* means;
  double count, eps;
};

struct RunningMoments {
  RunningMoments(const View& mean, const View& variance_, double eps_) : means(floats(mean)), variance(floats(variance_)), eps(eps_) {}
  SPILLWAY_BOTH Moments of(uint32_t c) const { return {double(means[c]), 1.0 / sqrt(double(variance[c]) + eps)}; }
  const float *means, *variance;
  double eps;
};

/// `arrays` coefficients of C floats each.
inline int64_t coefficient_bytes(const KernelCall& c, int64_t arrays) { return arrays * c.ins[0].dims[1] * int64_t(sizeof(float)); }

/// Per channel: a deviation (x - mean), and what it is multiplied by, in the first two arrays of `space`.
struct Normal {
  float *mean, *scale;
  Normal(float* space, int64_t channels) : mean(space), scale(space + channels) {}
  SPILLWAY_BOTH void put(uint32_t ch, Moments m, float gamma) const {
    mean[ch] = float(m.mean);
    scale[ch] = float(m.rstd * double(gamma));
  }
  SPILLWAY_BOTH float deviation(float x, uint32_t ch) const { return x - mean[ch]; }
};

/// y = (x - mean)·scale + beta.
template <class T, class Exec, class MomentsOf>
void normalise(Exec& exec, const KernelCall& c, MomentsOf moments, const View& gamma_view, const View& beta_view) {
  const int64_t channels = c.ins[0].dims[1];
  const Normal normal(static_cast<float*>(c.workspace), channels);
  const float *const gamma = floats(gamma_view), *const beta = floats(beta_view);
  exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) { normal.put(ch, moments.of(ch), gamma[ch]); });
  map<T, 1>(exec, c.outs[0], {&c.ins[0]}, [=] SPILLWAY_BOTH(const float* x, uint32_t ch) { return normal.deviation(x[0], ch) * normal.scale[ch] + beta[ch]; });
}

/// dgamma = Σ dz·(x - mean)·rstd and dbeta = Σ dz, where dz(pixel, channel) is what comes in: the mean is taken off in single
/// precision, as it is where it is applied.
template <class T, class Exec, class MomentsOf, class Dz>
void reduce(Exec& exec, const KernelCall& c, MomentsOf moments, Dz dz) {
  const PixelsOf<T> x(c.ins[0]);
  const int64_t channels = c.ins[0].dims[1];
  const float* const means = moments.means;
  const double* const sums = sums_of<2>(exec, ops::pixels(c.ins[0]), channels, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch, double* sum) {
    const double gradient = double(dz(pixel, ch));
    sum[0] += (double(x.at(pixel)[ch]) - double(means[ch])) * gradient;
    sum[1] += gradient;
  });
  float *const dgamma = floats(c.outs[0]), *const dbeta = floats(c.outs[1]);
  exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) {
    dgamma[ch] = float(sums[ch] * moments.of(ch).rstd);
    dbeta[ch] = float(sums[channels + ch]);
  });
}

template <class T, class Exec, class MomentsOf>
void reduce(Exec& exec, const KernelCall& c, MomentsOf moments) {
  const PixelsOf<T> dy(c.ins[1]);
  reduce<T>(exec, c, moments, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch) -> float { return dy.at(pixel)[ch]; });
}

/// dx = scale·(dz - offset - (x - mean)·tilt) by channel.
struct NormGradient {
  Normal normal;
  float *tilt, *offset;
  SPILLWAY_BOTH float dx(float x, float dz, uint32_t ch) const { return normal.scale[ch] * (dz - offset[ch] - normal.deviation(x, ch) * tilt[ch]); }
};

/// From gamma and dgamma at these inputs, and dbeta behind the latter, in four arrays of the scratch.
template <class Exec>
NormGradient norm_gradient(Exec& exec, const KernelCall& c, BatchMoments moments, uint32_t gamma_input, uint32_t dgamma_input) {
  const int64_t channels = c.ins[0].dims[1];
  float* const space = static_cast<float*>(c.workspace);
  const NormGradient g{Normal(space, channels), space + 2 * channels, space + 3 * channels};
  const float *const gamma = floats(c.ins[gamma_input]), *const dgamma = floats(c.ins[dgamma_input]), *const dbeta = floats(c.ins[dgamma_input + 1]);
  exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) {
    const Moments m = moments.of(ch);
    g.normal.put(ch, m, gamma[ch]);
    g.tilt[ch] = float(double(dgamma[ch]) * m.rstd / moments.count);
    g.offset[ch] = float(double(dbeta[ch]) / moments.count);
  });
  return g;
}

struct ChannelReduction : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<2>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
};

template <>
struct Kernel<OpKind::bn_stats> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]);
    const double count = double(ops::pixels(c.ins[0]));
    const int64_t channels = c.ins[0].dims[1];
    // Deviations from the first pixel: squares of a mean far from zero would cancel.
    const double* const sums = sums_of<2>(exec, ops::pixels(c.ins[0]), channels, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch, double* sum) {
      const double deviation = double(x.at(pixel)[ch]) - double(x.data[ch]);
      sum[0] += deviation;
      sum[1] += deviation * deviation;
    });
    const ops::Statistics<float> stats(c.outs[0]);
    exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) {
      const double sum = sums[ch], squares = sums[channels + ch] - sum * sum / count;
      stats.put(ch, double(x.data[ch]) + sum / count, squares > 0 ? squares : 0);
    });
  }
};

template <>
struct Kernel<OpKind::bn_apply> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return coefficient_bytes(c, 2); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnApplyAttrs::read(c.attrs);
    normalise<T>(exec, c, BatchMoments(c.ins[1], double(a.count), a.eps), c.ins[2], c.ins[3]);
  }
};

template <>
struct Kernel<OpKind::bn_bwd_reduce> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnBwdReduceAttrs::read(c.attrs);
    reduce<T>(exec, c, BatchMoments(c.ins[2], double(a.count), a.eps));
  }
};

template <>
struct Kernel<OpKind::bn_bwd_data> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return coefficient_bytes(c, 4); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnBwdDataAttrs::read(c.attrs);
    const NormGradient g = norm_gradient(exec, c, BatchMoments(c.ins[2], double(a.count), a.eps), 3, 4);
    map<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]}, [=] SPILLWAY_BOTH(const float* v, uint32_t ch) { return g.dx(v[0], v[1], ch); });
  }
};

template <>
struct Kernel<OpKind::bn_frozen> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return coefficient_bytes(c, 2); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    normalise<T>(exec, c, RunningMoments(c.ins[1], c.ins[2], BnFrozenAttrs::read(c.attrs).eps), c.ins[3], c.ins[4]);
  }
};

template <>
struct Kernel<OpKind::bn_frozen_bwd_data> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return coefficient_bytes(c, 1); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const double eps = BnFrozenBwdDataAttrs::read(c.attrs).eps;
    float* const scale = static_cast<float*>(c.workspace);
    const float *const variance = floats(c.ins[1]), *const gamma = floats(c.ins[2]);
    exec.each(c.ins[0].dims[1], [=] SPILLWAY_BOTH(uint32_t ch) { scale[ch] = float(double(gamma[ch]) / sqrt(double(variance[ch]) + eps)); });
    map<T, 1>(exec, c.outs[0], {&c.ins[0]}, [=] SPILLWAY_BOTH(const float* dy, uint32_t ch) { return dy[0] * scale[ch]; });
  }
};

template <>
struct Kernel<OpKind::bn_frozen_bwd_reduce> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    reduce<T>(exec, c, RunningMoments(c.ins[2], c.ins[3], BnFrozenBwdReduceAttrs::read(c.attrs).eps));
  }
};

template <>
struct Kernel<OpKind::bn_running> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnRunningAttrs::read(c.attrs);
    const ops::Statistics<float> stats(c.ins[0]);
    float *const mean = floats(c.ins[1]), *const variance = floats(c.ins[2]);
    const double momentum = a.momentum, keep = 1 - momentum, unbias = momentum / double(a.count > 1 ? a.count - 1 : 1);
    exec.each(c.ins[1].dims[0], [=] SPILLWAY_BOTH(uint32_t ch) {
      mean[ch] = float(keep * double(mean[ch]) + momentum * stats.mean(ch));
      variance[ch] = float(keep * double(variance[ch]) + unbias * stats.squares(ch));
    });
  }
};

}  // namespace spillway::cuda
