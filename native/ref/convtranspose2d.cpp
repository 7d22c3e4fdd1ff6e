// Transposed convolution and its two gradients: a convolution's three directions with x as its dst and y as its src.
#include "ops/convtranspose2d.hpp"

#include "ref/convolution.hpp"

namespace spillway::ref {
namespace {

ops::Conv2d geometry(const KernelCall& c, const View& x, const View& y, const View& w) {
  return ops::conv_transpose2d_geometry(ConvTranspose2dAttrs::read(c.attrs), x, y, w);
}

struct ConvTranspose2dForward {
  static ops::Conv2d of(const KernelCall& c) { return geometry(c, c.ins[0], c.outs[0], c.ins[1]); }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(of(c)); }
  template <class T>
  static void run(const KernelCall& c) {
    convolve_transposed<T>(c, of(c), c.ins[0], c.ins[1], c.outs[0], c.n_ins > 2 ? &c.ins[2] : nullptr);
  }
};

struct ConvTranspose2dBackwardData {
  static ops::Conv2d of(const KernelCall& c) { return geometry(c, c.outs[0], c.ins[0], c.ins[1]); }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(of(c)); }
  template <class T>
  static void run(const KernelCall& c) {
    convolve<T>(c, of(c), c.ins[0], c.ins[1], c.outs[0], nullptr);
  }
};

struct ConvTranspose2dBackwardWeights {
  static ops::Conv2d of(const KernelCall& c) { return geometry(c, c.ins[0], c.ins[1], c.outs[0]); }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(of(c)); }
  template <class T>
  static void run(const KernelCall& c) {
    correlate<T>(c, of(c), c.ins[1], c.ins[0], c.outs[0]);
    if (c.n_outs > 1) sum_channels<T>(c.ins[1], c.outs[1]);
  }
};

}  // namespace

const KernelEntry conv_transpose2d = entry<ConvTranspose2dForward>();
const KernelEntry conv_transpose2d_bwd_data = entry<ConvTranspose2dBackwardData>();
const KernelEntry conv_transpose2d_bwd_weights = entry<ConvTranspose2dBackwardWeights>();

}  // namespace spillway::ref
