// Batch norm and the rectifier that follows it, in one pass each way. The backward finds from x on which side of zero the
// output was, by the very arithmetic of the forward.
#pragma once
#include "cuda/kernels/batchnorm.hpp"

namespace spillway::cuda {

/// Per channel: z = (x - mean)·scale + shift, and what passes the rectifier.
struct Rectified {
  Normal normal;
  const float* shift;
  float slope;
  SPILLWAY_BOTH float deviation(float x, uint32_t ch) const { return normal.deviation(x, ch); }
  SPILLWAY_BOTH float z(float deviation, uint32_t ch) const { return fmaf(deviation, normal.scale[ch], shift[ch]); }
  SPILLWAY_BOTH float passed(float z, float value) const { return z <= 0 ? (slope == 0 ? 0.0f : slope * value) : value; }
};

/// The coefficients of gamma at input `gamma` and beta behind it, in the first two arrays of `space`.
template <class Exec>
Rectified rectified(Exec& exec, const KernelCall& c, BatchMoments moments, uint32_t gamma_input, float slope, float* space) {
  const int64_t channels = c.ins[0].dims[1];
  const Rectified r{Normal(space, channels), floats(c.ins[gamma_input + 1]), slope};
  const float* const gamma = floats(c.ins[gamma_input]);
  exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) { r.normal.put(ch, moments.of(ch), gamma[ch]); });
  return r;
}

/// The gradient of what was normalised, where what came out was rectified.
struct RectifiedGradient {
  NormGradient norm;
  Rectified r;
  SPILLWAY_BOTH float dx(float x, float dy, uint32_t ch) const { return norm.dx(x, r.passed(r.z(r.deviation(x, ch), ch), dy), ch); }
};

/// From gamma at input `gamma` and beta behind it, dgamma at input `gamma + 2` and dbeta behind that, in four arrays of the scratch.
template <class Exec>
RectifiedGradient rectified_gradient(Exec& exec, const KernelCall& c, BatchMoments moments, uint32_t gamma_input, float slope) {
  const NormGradient norm = norm_gradient(exec, c, moments, gamma_input, gamma_input + 2);
  return {norm, Rectified{norm.normal, floats(c.ins[gamma_input + 1]), slope}};
}

/// dgamma and dbeta of channels [first, first + channels) of dy, where x(pixel, channel counted from first) is what was normalised.
template <class T, class Exec, class X>
void reduce_rectified(Exec& exec, const KernelCall& c, const Rectified& r, BatchMoments moments, const View& dy_view, uint32_t first, uint32_t channels, X x) {
  const PixelsOf<T> dy(dy_view);
  const double* const totals = sums_of<2>(exec, ops::pixels(dy_view), channels, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch, double* sum) {
    const float deviation = r.deviation(x(pixel, ch), first + ch), passed = r.passed(r.z(deviation, first + ch), dy.at(pixel)[first + ch]);
    sum[0] += double(deviation) * double(passed);
    sum[1] += double(passed);
  });
  float *const dgamma = floats(c.outs[0]) + first, *const dbeta = floats(c.outs[1]) + first;
  exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) {
    dgamma[ch] = float(totals[ch] * moments.of(first + ch).rstd);
    dbeta[ch] = float(totals[channels + ch]);
  });
}

template <>
struct Kernel<OpKind::bn_relu_apply> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return coefficient_bytes(c, 2); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnReluApplyAttrs::read(c.attrs);
    const Rectified r = rectified(exec, c, BatchMoments(c.ins[1], double(a.count), a.eps), 2, float(a.slope), static_cast<float*>(c.workspace));
    map<T, 1>(exec, c.outs[0], {&c.ins[0]}, [=] SPILLWAY_BOTH(const float* x, uint32_t ch) {
      const float z = r.z(r.deviation(x[0], ch), ch);
      return r.passed(z, z);
    });
  }
};

template <>
struct Kernel<OpKind::bn_relu_bwd_reduce> : OwnKernel {
  static int64_t sums(const KernelCall& c) { return sums_bytes<2>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
  static int64_t workspace(const KernelCall& c) { return sums(c) + coefficient_bytes(c, 2); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnReluBwdReduceAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[2], double(a.count), a.eps);
    const Rectified r = rectified(exec, c, moments, 3, float(a.slope), reinterpret_cast<float*>(static_cast<char*>(c.workspace) + sums(c)));
    const PixelsOf<T> x(c.ins[0]);
    reduce_rectified<T>(exec, c, r, moments, c.ins[1], 0, x.channels, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch) -> float { return x.at(pixel)[ch]; });
  }
};

template <>
struct Kernel<OpKind::bn_relu_bwd_data> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return coefficient_bytes(c, 4); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnReluBwdDataAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[2], double(a.count), a.eps);
    const RectifiedGradient g = rectified_gradient(exec, c, moments, 3, float(a.slope));
    map<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]}, [=] SPILLWAY_BOTH(const float* v, uint32_t ch) { return g.dx(v[0], v[1], ch); });
  }
};

}  // namespace spillway::cuda
