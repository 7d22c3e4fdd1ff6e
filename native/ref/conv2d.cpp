// Convolution and its two gradients, each output element gathered by its own sum.
#include "ops/conv2d.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

using ops::WindowAxis;

bool inside(const WindowAxis& axis, int64_t row) { return row >= 0 && row < axis.in_extent; }

/// The output row whose window position k lies on this input row, or -1 when there is none in the view.
int64_t output_row(const WindowAxis& axis, int64_t in, int64_t k) {
  const int64_t distance = in + axis.pad - k * axis.dilation;
  if (distance < 0 || distance % axis.stride != 0) return -1;
  const int64_t out = distance / axis.stride;
  return out >= axis.out_lo && out < axis.out_lo + axis.out_size ? out : -1;
}

struct Conv2dForward {
  static constexpr auto check = ops::check_conv2d;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), w(c.ins[1]), y(c.outs[0]);
    const ops::Conv2d g = ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), c.ins[0], c.outs[0], c.ins[1]);
    const auto &[ah, aw] = g.window;
    each_element(c.outs[0], [&](int64_t b, int64_t o, int64_t oy, int64_t ox) {
      double sum = c.n_ins > 2 ? double(Tensor<T>(c.ins[2])[o]) : 0.0;
      for (int64_t i = 0; i < g.group_in(); i++)
        for (int64_t ky = 0; ky < ah.kernel; ky++)
          for (int64_t kx = 0; kx < aw.kernel; kx++) {
            const int64_t iy = ah.start(oy) + ky * ah.dilation, ix = aw.start(ox) + kx * aw.dilation;
            if (!inside(ah, iy) || !inside(aw, ix)) continue;
            sum += double(x.global(b, o / g.group_out() * g.group_in() + i, iy, ix)) * double(w.at(o, i, ky, kx));
          }
      y.global(b, o, oy, ox) = T(sum);
    });
  }
};

struct Conv2dBackwardData {
  static constexpr auto check = ops::check_conv2d_bwd_data;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), w(c.ins[1]), dx(c.outs[0]);
    const ops::Conv2d g = ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), c.outs[0], c.ins[0], c.ins[1]);
    const auto &[ah, aw] = g.window;
    each_element(c.outs[0], [&](int64_t b, int64_t i, int64_t iy, int64_t ix) {
      double sum = 0;
      const int64_t group = i / g.group_in();
      for (int64_t ky = 0; ky < ah.kernel; ky++)
        for (int64_t kx = 0; kx < aw.kernel; kx++) {
          const int64_t oy = output_row(ah, iy, ky), ox = output_row(aw, ix, kx);
          if (oy < 0 || ox < 0) continue;
          for (int64_t o = group * g.group_out(); o < (group + 1) * g.group_out(); o++)
            sum += double(dy.global(b, o, oy, ox)) * double(w.at(o, i % g.group_in(), ky, kx));
        }
      dx.global(b, i, iy, ix) = T(sum);
    });
  }
};

struct Conv2dBackwardWeights {
  static constexpr auto check = ops::check_conv2d_bwd_weights;
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dw(c.outs[0]);
    const ops::Conv2d g = ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), c.ins[0], c.ins[1], c.outs[0]);
    const auto &[ah, aw] = g.window;
    each_element(c.outs[0], [&](int64_t o, int64_t i, int64_t ky, int64_t kx) {
      double sum = 0;
      each_pixel(c.ins[1], [&](int64_t b, int64_t oy, int64_t ox) {
        const int64_t iy = ah.start(oy) + ky * ah.dilation, ix = aw.start(ox) + kx * aw.dilation;
        if (!inside(ah, iy) || !inside(aw, ix)) return;
        sum += double(x.global(b, o / g.group_out() * g.group_in() + i, iy, ix)) * double(dy.global(b, o, oy, ox));
      });
      dw.at(o, i, ky, kx) = T(sum);
    });
    if (c.n_outs > 1) bias_gradient<T>(c);
  }

  template <class T>
  static void bias_gradient(const KernelCall& c) {
    const Tensor<T> dy(c.ins[1]), db(c.outs[1]);
    for (int64_t o = 0; o < c.outs[1].dims[0]; o++) {
      double sum = 0;
      each_pixel(c.ins[1], [&](int64_t b, int64_t oy, int64_t ox) { sum += double(dy.global(b, o, oy, ox)); });
      db[o] = T(sum);
    }
  }
};

}  // namespace

const KernelEntry conv2d = entry<Conv2dForward>();
const KernelEntry conv2d_bwd_data = entry<Conv2dBackwardData>();
const KernelEntry conv2d_bwd_weights = entry<Conv2dBackwardWeights>();

}  // namespace spillway::ref
