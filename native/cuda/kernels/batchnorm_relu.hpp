// Batch norm and the rectifier that follows it, in one pass each way. The backward finds from x on which side of zero the
// output was, by the very arithmetic of the forward.
#pragma once
#include "cuda/kernels/batchnorm.hpp"

namespace spillway::cuda {

/// The value that passes a rectifier for a given z.
SPILLWAY_BOTH inline float rectified_by(float z, float value, float slope) { return z <= 0 ? (slope == 0 ? 0.0f : slope * value) : value; }

struct RectifiedNorm {
  NormOf<BatchMoments> norm;
  float slope;
  SPILLWAY_BOTH NormAt at(uint32_t ch) const { return norm.at(ch); }
  SPILLWAY_BOTH float of(const NormAt& k, const float* x) const {
    const float z = k.z(x[0] - k.mean);
    return rectified_by(z, z, slope);
  }
  // As the gate of gradients:
  SPILLWAY_BOTH uint32_t bits(uint32_t, uint32_t) const { return 0; }
  SPILLWAY_BOTH float passed(const NormAt& k, float deviation, float dy, uint32_t) const { return rectified_by(k.z(deviation), dy, slope); }
};

/// The gradient of the normalised value, if the result was rectified.
struct RectifiedGradientAt {
  NormGradientAt norm;
  float shift;
};

struct RectifiedGradient {
  NormGradient norm;
  const float* beta;
  float slope;
  SPILLWAY_BOTH RectifiedGradientAt at(uint32_t ch) const { return {norm.at(ch), beta[ch]}; }
  SPILLWAY_BOTH float of(const RectifiedGradientAt& k, const float* v) const {
    const float z = NormAt{k.norm.mean, k.norm.scale, k.shift}.z(v[0] - k.norm.mean);
    return k.norm.dx(v[0], rectified_by(z, v[1], slope));
  }
};

/// From gamma at input `gamma` and beta behind it, dgamma at input `gamma + 2` and dbeta behind that.
inline RectifiedGradient rectified_gradient(const KernelCall& c, BatchMoments moments, uint32_t gamma_input, float slope) {
  return {norm_gradient(c, moments, gamma_input, gamma_input + 2), floats(c.ins[gamma_input + 1]), slope};
}

template <>
struct Kernel<OpKind::bn_relu_apply> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnReluApplyAttrs::read(c.attrs);
    map_by_channel<T, 1>(exec, c.outs[0], {&c.ins[0]},
                         RectifiedNorm{norm_of(c, BatchMoments(c.ins[1], double(a.count), a.eps), 2), float(a.slope)});
  }
};

template <>
struct Kernel<OpKind::bn_relu_bwd_reduce> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnReluBwdReduceAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[2], double(a.count), a.eps);
    reduce<T>(exec, c, moments, RectifiedNorm{norm_of(c, moments, 3), float(a.slope)});
  }
};

template <>
struct Kernel<OpKind::bn_relu_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnReluBwdDataAttrs::read(c.attrs);
    map_by_channel<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]},
                         rectified_gradient(c, BatchMoments(c.ins[2], double(a.count), a.eps), 3, float(a.slope)));
  }
};

}  // namespace spillway::cuda
