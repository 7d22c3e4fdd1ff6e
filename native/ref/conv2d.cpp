// Convolution and its two gradients, by the loops of convolution.hpp.
#include "ref/convolution.hpp"

namespace spillway::ref {
namespace {

ops::Conv2d geometry(const KernelCall& c, const View& x, const View& y, const View& w) {
  return ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), x, y, w);
}

struct Conv2dForward {
  static ops::Conv2d of(const KernelCall& c) { return geometry(c, c.ins[0], c.outs[0], c.ins[1]); }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(of(c)); }
  template <class T>
  static void run(const KernelCall& c) {
    convolve<T>(c, of(c), c.ins[0], c.ins[1], c.outs[0], c.n_ins > 2 ? &c.ins[2] : nullptr);
  }
};

/// Attributes begin with the convolution's own.
struct Conv2dRelu : Conv2dForward {
  template <class T>
  static void run(const KernelCall& c) {
    Conv2dForward::run<T>(c);
    const double slope = Conv2dReluAttrs::read(c.attrs).slope;
    const Tensor<T> y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      T& value = y.global(b, ch, h, w);
      if (value <= 0) value = slope == 0 ? T(0) : T(slope * double(value));
    });
  }
};

struct Conv2dBackwardData {
  static ops::Conv2d of(const KernelCall& c) { return geometry(c, c.outs[0], c.ins[0], c.ins[1]); }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(of(c)); }
  template <class T>
  static void run(const KernelCall& c) {
    convolve_transposed<T>(c, of(c), c.ins[0], c.ins[1], c.outs[0], nullptr);
  }
};

struct Conv2dBackwardWeights {
  static ops::Conv2d of(const KernelCall& c) { return geometry(c, c.ins[0], c.ins[1], c.outs[0]); }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(of(c)); }
  template <class T>
  static void run(const KernelCall& c) {
    correlate<T>(c, of(c), c.ins[0], c.ins[1], c.outs[0]);
    if (c.n_outs > 1) sum_channels<T>(c.ins[1], c.outs[1]);
  }
};

}  // namespace

const KernelEntry conv2d = entry<Conv2dForward>();
const KernelEntry conv2d_relu = entry<Conv2dRelu>();
const KernelEntry conv2d_bwd_data = entry<Conv2dBackwardData>();
const KernelEntry conv2d_bwd_weights = entry<Conv2dBackwardWeights>();

}  // namespace spillway::ref
