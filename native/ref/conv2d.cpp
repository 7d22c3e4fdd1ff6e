// Convolution and its two gradients: for each pixel, the sum over the window, all channels of one side at a time.
// In: dense activations. Out: y, dx, or dw and db. The weights (or their gradient) lie in scratch as doubles, [group, ky, kx,
// r, c] with c the channels that the inner loop runs over, so that it is a run of memory: slow enough to be plain, fast
// enough for whole networks.
#include <algorithm>

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

/// The weights of one call in scratch, and a line of sums behind them.
class Packed {
 public:
  Packed(const KernelCall& c, const ops::Conv2d& g, bool inner_is_out)
      : g_(g), inner_is_out_(inner_is_out), data_(static_cast<double*>(c.workspace)), sums_(data_ + size(g)) {}

  static int64_t size(const ops::Conv2d& g) { return g.out_channels * g.group_in() * g.window.h.kernel * g.window.w.kernel; }
  static int64_t doubles(const ops::Conv2d& g) { return size(g) + std::max(g.in_channels, g.out_channels); }

  /// One element: o is counted in all channels, i within its group.
  double& at(int64_t o, int64_t i, int64_t ky, int64_t kx) const {
    const int64_t group = o / g_.group_out(), within = o % g_.group_out();
    return line(group, ky, kx, inner_is_out_ ? i : within)[inner_is_out_ ? within : i];
  }
  /// The inner channels at a window position, for channel r of the other side.
  double* line(int64_t group, int64_t ky, int64_t kx, int64_t r) const {
    const int64_t rows = inner_is_out_ ? g_.group_in() : g_.group_out(), columns = inner_is_out_ ? g_.group_out() : g_.group_in();
    return data_ + (((group * g_.window.h.kernel + ky) * g_.window.w.kernel + kx) * rows + r) * columns;
  }
  double* sums() const { return sums_; }
  void clear() const { std::fill(data_, data_ + size(g_), 0.0); }

  /// Calls f(o, i, ky, kx) for each weight.
  template <class F>
  void each(F f) const {
    for (int64_t o = 0; o < g_.out_channels; o++)
      for (int64_t i = 0; i < g_.group_in(); i++)
        for (int64_t ky = 0; ky < g_.window.h.kernel; ky++)
          for (int64_t kx = 0; kx < g_.window.w.kernel; kx++) f(o, i, ky, kx);
  }

 private:
  const ops::Conv2d& g_;
  bool inner_is_out_;
  double* data_;
  double* sums_;
};

void add_scaled(double* sums, double scale, const double* line, int64_t n) {
  for (int64_t k = 0; k < n; k++) sums[k] += scale * line[k];
}

struct Conv2dForward {
  static constexpr auto check = ops::check_conv2d;
  static ops::Conv2d geometry(const KernelCall& c) {
    return ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), c.ins[0], c.outs[0], c.ins[1]);
  }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(geometry(c)); }

  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), w(c.ins[1]), y(c.outs[0]);
    const ops::Conv2d g = geometry(c);
    const Packed packed(c, g, true);
    packed.each([&](int64_t o, int64_t i, int64_t ky, int64_t kx) { packed.at(o, i, ky, kx) = double(w.at(o, i, ky, kx)); });
    double* sums = packed.sums();
    each_pixel(c.outs[0], [&](int64_t b, int64_t oy, int64_t ox) {
      for (int64_t o = 0; o < g.out_channels; o++) sums[o] = c.n_ins > 2 ? double(Tensor<T>(c.ins[2])[o]) : 0.0;
      for (int64_t group = 0; group < g.groups; group++) pixel(x, packed, g, group, b, oy, ox, sums + group * g.group_out());
      for (int64_t o = 0; o < g.out_channels; o++) y.global(b, o, oy, ox) = T(sums[o]);
    });
  }

  template <class T>
  static void pixel(const Tensor<T>& x, const Packed& w, const ops::Conv2d& g, int64_t group, int64_t b, int64_t oy, int64_t ox, double* sums) {
    const auto &[ah, aw] = g.window;
    for (int64_t ky = 0; ky < ah.kernel; ky++)
      for (int64_t kx = 0; kx < aw.kernel; kx++) {
        const int64_t iy = ah.start(oy) + ky * ah.dilation, ix = aw.start(ox) + kx * aw.dilation;
        if (!inside(ah, iy) || !inside(aw, ix)) continue;
        for (int64_t i = 0; i < g.group_in(); i++)
          add_scaled(sums, double(x.global(b, group * g.group_in() + i, iy, ix)), w.line(group, ky, kx, i), g.group_out());
      }
  }
};

struct Conv2dBackwardData {
  static constexpr auto check = ops::check_conv2d_bwd_data;
  static ops::Conv2d geometry(const KernelCall& c) {
    return ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), c.outs[0], c.ins[0], c.ins[1]);
  }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(geometry(c)); }

  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), w(c.ins[1]), dx(c.outs[0]);
    const ops::Conv2d g = geometry(c);
    const Packed packed(c, g, false);
    packed.each([&](int64_t o, int64_t i, int64_t ky, int64_t kx) { packed.at(o, i, ky, kx) = double(w.at(o, i, ky, kx)); });
    double* sums = packed.sums();
    each_pixel(c.outs[0], [&](int64_t b, int64_t iy, int64_t ix) {
      std::fill(sums, sums + g.in_channels, 0.0);
      for (int64_t group = 0; group < g.groups; group++) pixel(dy, packed, g, group, b, iy, ix, sums + group * g.group_in());
      for (int64_t i = 0; i < g.in_channels; i++) dx.global(b, i, iy, ix) = T(sums[i]);
    });
  }

  template <class T>
  static void pixel(const Tensor<T>& dy, const Packed& w, const ops::Conv2d& g, int64_t group, int64_t b, int64_t iy, int64_t ix, double* sums) {
    const auto &[ah, aw] = g.window;
    for (int64_t ky = 0; ky < ah.kernel; ky++)
      for (int64_t kx = 0; kx < aw.kernel; kx++) {
        const int64_t oy = output_row(ah, iy, ky), ox = output_row(aw, ix, kx);
        if (oy < 0 || ox < 0) continue;
        for (int64_t o = 0; o < g.group_out(); o++)
          add_scaled(sums, double(dy.global(b, group * g.group_out() + o, oy, ox)), w.line(group, ky, kx, o), g.group_in());
      }
  }
};

struct Conv2dBackwardWeights {
  static constexpr auto check = ops::check_conv2d_bwd_weights;
  static ops::Conv2d geometry(const KernelCall& c) {
    return ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), c.ins[0], c.ins[1], c.outs[0]);
  }
  static int64_t scratch_doubles(const KernelCall& c) { return Packed::doubles(geometry(c)); }

  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dw(c.outs[0]);
    const ops::Conv2d g = geometry(c);
    const Packed packed(c, g, true);
    packed.clear();
    double* line = packed.sums();
    each_pixel(c.ins[1], [&](int64_t b, int64_t oy, int64_t ox) {
      for (int64_t o = 0; o < g.out_channels; o++) line[o] = double(dy.global(b, o, oy, ox));
      for (int64_t group = 0; group < g.groups; group++) pixel(x, packed, g, group, b, oy, ox, line + group * g.group_out());
    });
    packed.each([&](int64_t o, int64_t i, int64_t ky, int64_t kx) { dw.at(o, i, ky, kx) = T(packed.at(o, i, ky, kx)); });
    if (c.n_outs > 1) bias_gradient<T>(c);
  }

  template <class T>
  static void pixel(const Tensor<T>& x, const Packed& dw, const ops::Conv2d& g, int64_t group, int64_t b, int64_t oy, int64_t ox, const double* dy) {
    const auto &[ah, aw] = g.window;
    for (int64_t ky = 0; ky < ah.kernel; ky++)
      for (int64_t kx = 0; kx < aw.kernel; kx++) {
        const int64_t iy = ah.start(oy) + ky * ah.dilation, ix = aw.start(ox) + kx * aw.dilation;
        if (!inside(ah, iy) || !inside(aw, ix)) continue;
        for (int64_t i = 0; i < g.group_in(); i++)
          add_scaled(dw.line(group, ky, kx, i), double(x.global(b, group * g.group_in() + i, iy, ix)), dy, g.group_out());
      }
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
