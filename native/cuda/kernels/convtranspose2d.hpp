// Transposed convolution and its gradients: a convolution's three directions with x as its dst and y as its src.
#pragma once
#include "cuda/kernels/convolution.hpp"
#include "ops/convtranspose2d.hpp"

namespace spillway::cuda {

inline ops::Conv2d transposed_geometry(const KernelCall& c, const View& x, const View& y, const View& w) {
  return ops::conv_transpose2d_geometry(ConvTranspose2dAttrs::read(c.attrs), x, y, w);
}

template <>
struct Kernel<OpKind::conv_transpose2d> : LibraryKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    convolve_transposed<T>(exec, transposed_geometry(c, c.ins[0], c.outs[0], c.ins[1]), c.ins[0], c.ins[1], c.outs[0],
                           c.n_ins > 2 ? &c.ins[2] : nullptr);
  }
};

template <>
struct Kernel<OpKind::conv_transpose2d_bwd_data> : LibraryKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    convolve<T>(exec, transposed_geometry(c, c.outs[0], c.ins[0], c.ins[1]), c.ins[0], c.ins[1], c.outs[0], nullptr);
  }
};

template <>
struct Kernel<OpKind::conv_transpose2d_bwd_weights> : LibraryKernel {
  static int64_t workspace(const KernelCall& c) { return weights_gradient_bytes(c, c.ins[0]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    correlate<T>(exec, transposed_geometry(c, c.ins[0], c.ins[1], c.outs[0]), c.ins[1], c.ins[0], c.outs[0], c.workspace);
    if (c.n_outs > 1) bias_gradient<T>(exec, c.ins[1], c.outs[1], c.workspace);
  }
};

}  // namespace spillway::cuda
