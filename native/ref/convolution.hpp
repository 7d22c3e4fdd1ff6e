// The three directions of a convolution between a src (windows slide over it) and a dst (one pixel for each window), for
// conv2d, which reads src and writes dst, and conv_transpose2d, the other way round. All channels of one side at a time.
// Weights (or their gradient) are in scratch as doubles, [group, ky, kx, r, c] with c the channels of the inner loop, so
// that it is a run of memory: slow enough to be plain, fast enough for whole networks. Invariant: elements outside a view
// count as zero.
#pragma once
#include <algorithm>

#include "ops/conv2d.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {

using ops::WindowAxis;

inline bool held(const WindowAxis& axis, int64_t row) { return row >= axis.in_lo && row < axis.in_hi(); }

/// The dst row whose window position k lies on this src row, or -1 when there is none in the view.
inline int64_t output_row(const WindowAxis& axis, int64_t in, int64_t k) {
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
  template <class T>
  void load(const Tensor<T>& w) const {
    each([&](int64_t o, int64_t i, int64_t ky, int64_t kx) { at(o, i, ky, kx) = double(w.at(o, i, ky, kx)); });
  }
  template <class T>
  void store(const Tensor<T>& w) const {
    each([&](int64_t o, int64_t i, int64_t ky, int64_t kx) { w.at(o, i, ky, kx) = T(at(o, i, ky, kx)); });
  }

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

inline void add_scaled(double* sums, double scale, const double* line, int64_t n) {
  for (int64_t k = 0; k < n; k++) sums[k] += scale * line[k];
}

/// Calls f(group, ky, kx, iy, ix) for each held src pixel of the window of one dst pixel.
template <class F>
void each_tap(const ops::Conv2d& g, int64_t oy, int64_t ox, F f) {
  const auto& [ah, aw] = g.window;
  for (int64_t group = 0; group < g.groups; group++)
    for (int64_t ky = 0; ky < ah.kernel; ky++)
      for (int64_t kx = 0; kx < aw.kernel; kx++) {
        const int64_t iy = ah.start(oy) + ky * ah.dilation, ix = aw.start(ox) + kx * aw.dilation;
        if (held(ah, iy) && held(aw, ix)) f(group, ky, kx, iy, ix);
      }
}

/// Each pixel starts from the bias where there is one.
template <class T>
void start_sums(double* sums, int64_t channels, const View* bias) {
  for (int64_t c = 0; c < channels; c++) sums[c] = bias ? double(Tensor<T>(*bias)[c]) : 0.0;
}

/// dst = conv(src).
template <class T>
void convolve(const KernelCall& c, const ops::Conv2d& g, const View& src_view, const View& weights, const View& dst_view,
              const View* bias) {
  const Tensor<T> src(src_view), w(weights), dst(dst_view);
  const Packed packed(c, g, true);
  packed.load(w);
  double* sums = packed.sums();
  each_pixel(dst_view, [&](int64_t b, int64_t oy, int64_t ox) {
    start_sums<T>(sums, g.out_channels, bias);
    each_tap(g, oy, ox, [&](int64_t group, int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
      for (int64_t i = 0; i < g.group_in(); i++)
        add_scaled(sums + group * g.group_out(), double(src.global(b, group * g.group_in() + i, iy, ix)), packed.line(group, ky, kx, i),
                   g.group_out());
    });
    for (int64_t o = 0; o < g.out_channels; o++) dst.global(b, o, oy, ox) = T(sums[o]);
  });
}

/// src = the transpose of conv, applied to dst.
template <class T>
void convolve_transposed(const KernelCall& c, const ops::Conv2d& g, const View& dst_view, const View& weights, const View& src_view,
                         const View* bias) {
  const Tensor<T> dst(dst_view), w(weights), src(src_view);
  const Packed packed(c, g, false);
  packed.load(w);
  double* sums = packed.sums();
  const auto& [ah, aw] = g.window;
  each_pixel(src_view, [&](int64_t b, int64_t iy, int64_t ix) {
    start_sums<T>(sums, g.in_channels, bias);
    for (int64_t group = 0; group < g.groups; group++)
      for (int64_t ky = 0; ky < ah.kernel; ky++)
        for (int64_t kx = 0; kx < aw.kernel; kx++) {
          const int64_t oy = output_row(ah, iy, ky), ox = output_row(aw, ix, kx);
          if (oy < 0 || ox < 0) continue;
          for (int64_t o = 0; o < g.group_out(); o++)
            add_scaled(sums + group * g.group_in(), double(dst.global(b, group * g.group_out() + o, oy, ox)), packed.line(group, ky, kx, o),
                       g.group_in());
        }
    for (int64_t i = 0; i < g.in_channels; i++) src.global(b, i, iy, ix) = T(sums[i]);
  });
}

/// dw = the sum over dst pixels of dst times the window of src.
template <class T>
void correlate(const KernelCall& c, const ops::Conv2d& g, const View& src_view, const View& dst_view, const View& weights) {
  const Tensor<T> src(src_view), dst(dst_view), dw(weights);
  const Packed packed(c, g, true);
  packed.clear();
  double* line = packed.sums();
  each_pixel(dst_view, [&](int64_t b, int64_t oy, int64_t ox) {
    for (int64_t o = 0; o < g.out_channels; o++) line[o] = double(dst.global(b, o, oy, ox));
    each_tap(g, oy, ox, [&](int64_t group, int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
      for (int64_t i = 0; i < g.group_in(); i++)
        add_scaled(packed.line(group, ky, kx, i), double(src.global(b, group * g.group_in() + i, iy, ix)), line + group * g.group_out(),
                   g.group_out());
    });
  });
  packed.store(dw);
}

template <class T>
void sum_channels(const View& dy_view, const View& db_view) {
  const Tensor<T> dy(dy_view), db(db_view);
  for (int64_t o = 0; o < db_view.dims[0]; o++) {
    double sum = 0;
    each_pixel(dy_view, [&](int64_t b, int64_t oy, int64_t ox) { sum += double(dy.global(b, o, oy, ox)); });
    db[o] = T(sum);
  }
}

}  // namespace spillway::ref
