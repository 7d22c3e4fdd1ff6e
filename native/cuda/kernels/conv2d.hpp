// Convolution and its gradients, where cuDNN has no engine.
#pragma once
#include "cuda/kernels/convolution.hpp"

namespace spillway::cuda {

/// Attributes begin with the convolution's own.
template <class T, class Exec>
void convolve_call(Exec& exec, const KernelCall& c, float slope) {
  const ops::Conv2d g = ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), c.ins[0], c.outs[0], c.ins[1]);
  convolve<T>(exec, g, c.ins[0], c.ins[1], c.outs[0], c.n_ins > 2 ? &c.ins[2] : nullptr, slope);
}

template <>
struct Kernel<OpKind::conv2d> : LibraryKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    convolve_call<T>(exec, c, 1);
  }
};

template <>
struct Kernel<OpKind::conv2d_relu> : LibraryKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    convolve_call<T>(exec, c, float(Conv2dReluAttrs::read(c.attrs).slope));
  }
};

template <>
struct Kernel<OpKind::conv2d_bwd_data> : LibraryKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::Conv2d g = ops::conv2d_geometry(Conv2dBwdDataAttrs::read(c.attrs), c.outs[0], c.ins[0], c.ins[1]);
    convolve_transposed<T>(exec, g, c.ins[0], c.ins[1], c.outs[0], nullptr);
  }
};

template <>
struct Kernel<OpKind::conv2d_bwd_weights> : LibraryKernel {
  static int64_t workspace(const KernelCall& c) { return weights_gradient_bytes(c, c.ins[1]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::Conv2d g = ops::conv2d_geometry(Conv2dBwdWeightsAttrs::read(c.attrs), c.ins[0], c.ins[1], c.outs[0]);
    correlate<T>(exec, g, c.ins[0], c.ins[1], c.outs[0], c.workspace);
    if (c.n_outs > 1) bias_gradient<T>(exec, c.ins[1], c.outs[1], c.workspace);
  }
};

}  // namespace spillway::cuda
