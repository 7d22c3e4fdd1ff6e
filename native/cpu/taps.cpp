// Taps one after the other: their pixels of either side are gathered, multiplied by oneDNN's 1x1 convolution, and added back.
// Products of bf16 are added as floats and rounded once, as the direct convolution rounds.
#include "cpu/taps.hpp"

#include "cpu/channel_sums.hpp"

namespace spillway::cpu::taps {
namespace {

using ops::Conv2d;
using ops::Window;
using ops::WindowAxis;

Stripe joined(const WindowAxis& a, int64_t position) {
  const int64_t in_of_first = a.start(a.out_lo) + position * a.dilation - a.in_lo;
  const int64_t out = in_of_first < 0 ? (-in_of_first + a.stride - 1) / a.stride : 0, in = in_of_first + out * a.stride;
  const int64_t held = in < a.in_size ? (a.in_size - 1 - in) / a.stride + 1 : 0;
  return {out, in, std::clamp<int64_t>(a.out_size - out, 0, held)};
}

/// Those that join any pixels.
std::vector<Tap> live_taps(const Conv2d& g) {
  std::vector<Tap> taps;
  const auto& [h, w] = g.window;
  for (int64_t ky = 0; ky < h.kernel; ky++)
    for (int64_t kx = 0; kx < w.kernel; kx++) {
      const Stripe rows = joined(h, ky), columns = joined(w, kx);
      if (const int64_t pixels = g.batch * rows.count * columns.count) taps.push_back({ky * w.kernel + kx, rows, columns, pixels});
    }
  return taps;
}

std::shared_ptr<const Convolution> product_of(Direction direction, const Conv2d& g, bool bf16, const Tap& tap) {
  WindowAxis columns, row;
  columns.in_size = columns.in_extent = columns.out_size = tap.pixels;
  row.in_size = row.in_extent = row.out_size = 1;
  auto product = convolution_of(direction, {1, g.in_channels, g.out_channels, 1, {row, columns}}, false,
                                bf16 ? Activations::bf16_to_floats : Activations::floats);
  if (!product->compiled) throw std::runtime_error("oneDNN has no product for these channels");
  return product;
}

Places lay_out(Direction direction, const Conv2d& g, bool bf16, int64_t taps, int64_t pixels, int64_t own) {
  const bool writes_x = direction == Direction::backward_data, writes_y = direction == Direction::forward;
  const int64_t read = bf16 ? sizeof(Bf16) : sizeof(float), written = sizeof(float);
  const auto& [h, w] = g.window;
  const int64_t summed = writes_x ? g.in_channels * h.in_size * w.in_size : writes_y ? g.out_channels * h.out_size * w.out_size : 0;
  Places p{};
  WorkspaceLayout layout;
  p.planes = layout.place(taps * g.in_channels * g.out_channels * int64_t(sizeof(float)));
  p.x = layout.place(pixels * g.in_channels * (writes_x ? written : read));
  p.y = layout.place(pixels * g.out_channels * (writes_y ? written : read));
  p.sums = layout.place(bf16 ? g.batch * summed * written : 0);
  p.product = layout.place(own);
  p.bytes = layout.bytes();
  return p;
}

/// A tap's pixels of one side, whose view stores T.
template <class T>
struct Pixels {
  const View& view;
  int64_t row, rows, row_step, column, columns, column_step;

  static Pixels of_x(const View& x, const Window& w, const Tap& t) {
    return {x, t.rows.in, t.rows.count, w.h.stride, t.columns.in, t.columns.count, w.w.stride};
  }
  static Pixels of_y(const View& y, const Tap& t) { return {y, t.rows.out, t.rows.count, 1, t.columns.out, t.columns.count, 1}; }

  /// Returns true if they lie in memory as gathered ones would.
  bool gathered() const {
    return row_step == 1 && column_step == 1 && columns == view.dims[3] && (view.dims[0] == 1 || rows == view.dims[2]);
  }
  T* first() const { return pixel_of<T>(view, 0, row, column); }

  /// Calls f(in the view, gathered, elements) for each stretch that is contiguous in both.
  template <class F>
  void each(T* together, F f) const {
    const int64_t channels = view.dims[1], stretches = column_step == 1 ? 1 : columns,
                  length = column_step == 1 ? columns * channels : channels;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < view.dims[0] * rows; i++)
      for (int64_t s = 0; s < stretches; s++)
        f(pixel_of<T>(view, i / rows, row + i % rows * row_step, column + s * column_step), together + (i * columns + s) * channels,
          length);
  }
};

template <class T>
T* gather(const Pixels<T>& pixels, T* to) {
  if (pixels.gathered()) return pixels.first();
  pixels.each(to, [](const T* from, T* at, int64_t n) { std::copy_n(from, n, at); });
  return to;
}

void add_back(const Pixels<float>& pixels, float* products) {
  pixels.each(products, [](float* to, const float* from, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
  });
}

/// Calls f(from, to) for blocks of weights that the first cache holds while all planes take from them.
template <class F>
void each_block(int64_t size, F f) {
  constexpr int64_t block = 512;
#pragma omp parallel for schedule(static)
  for (int64_t from = 0; from < size; from += block) f(from, std::min(size, from + block));
}

/// The sums of products: the result, or floats in the scratch that are rounded to it at the end.
class Sums {
 public:
  Sums(const View& result, void* scratch) : result_(result), floats_(result) {
    if (!is_bf16(result)) return;
    floats_.dtype = DType::f32;
    floats_.data = scratch;
  }
  const View& floats() const { return floats_; }

  /// Every pixel: the bias, or zero.
  void begin(const float* bias) const {
    if (!bias) return each_run<1>({&floats_}, [](Pointers<1> at, int64_t n) { std::fill_n(at[0], n, 0.0f); });
    const int64_t channels = floats_.dims[1];
    const int64_t pixels = ops::elements(floats_) / channels;
    float* const values = cpu::floats(floats_);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < pixels; i++) std::copy_n(bias, channels, values + i * channels);
  }
  void end() const {
    if (is_bf16(result_)) each_run<2>({&result_, &floats_}, [](Pointers<2> at, int64_t n) { std::copy_n(at[1], n, at[0]); });
  }

 private:
  const View& result_;
  View floats_;
};

}  // namespace

Kernel::Kernel(Direction direction, const Conv2d& g, const KernelCall& c)
    : g_(g),
      taps_(live_taps(g)),
      tap_of_(size_t(g.window.h.kernel * g.window.w.kernel), -1),
      bias_sums_(direction == Direction::backward_weights && c.n_outs > 1 ? channel_sums_bytes<1>(c.ins[1]) : 0) {
  const bool bf16 = ops::is_bf16(c);
  int64_t pixels = 0, own = 0;
  for (const Tap& tap : taps_) {
    const auto made = product_of(direction, g, bf16, tap);
    tap_of_[size_t(tap.position)] = int64_t(products_.size());
    products_.push_back({made, Bound(*made->compiled)});
    pixels = std::max(pixels, tap.pixels);
    own = std::max(own, made->workspace_bytes);
  }
  places_ = lay_out(direction, g, bf16, int64_t(taps_.size()), pixels, own);
}

void Kernel::compile() const {
  for (const Product& p : products_) p.made->compiled->prepare();
}

/// Weights are [O,I,positions], beside planes of the taps.
void Kernel::take_weights(const KernelCall& c, const float* weights) const {
  const auto positions = int64_t(tap_of_.size());
  each_block(g_.in_channels * g_.out_channels, [&](int64_t from, int64_t to) {
    for (size_t t = 0; t < taps_.size(); t++) {
      float* const to_plane = plane(c, t);
      for (int64_t i = from; i < to; i++) to_plane[i] = weights[i * positions + taps_[t].position];
    }
  });
}

/// Taps that join nothing have a gradient of zero.
void Kernel::give_weights(const KernelCall& c, float* weights) const {
  const auto positions = int64_t(tap_of_.size());
  each_block(g_.in_channels * g_.out_channels, [&](int64_t from, int64_t to) {
    for (int64_t p = 0; p < positions; p++) {
      const float* const of_plane = tap_of_[size_t(p)] < 0 ? nullptr : plane(c, size_t(tap_of_[size_t(p)]));
      for (int64_t i = from; i < to; i++) weights[i * positions + p] = of_plane ? of_plane[i] : 0.0f;
    }
  });
}

void Kernel::forward(const KernelCall& c) {
  const Sums y(c.outs[0], at<void>(c, places_.sums));
  take_weights(c, floats(c.ins[1]));
  y.begin(c.n_ins > 2 ? floats(c.ins[2]) : nullptr);
  with_element(c.ins[0], [&](auto element) {
    using T = decltype(element);
    for (size_t t = 0; t < taps_.size(); t++) {
      float* const products = at<float>(c, places_.y);
      void* const data[] = {gather(Pixels<T>::of_x(c.ins[0], g_.window, taps_[t]), at<T>(c, places_.x)), plane(c, t), products};
      products_[t].bound.run(data, at<void>(c, places_.product));
      add_back(Pixels<float>::of_y(y.floats(), taps_[t]), products);
    }
  });
  y.end();
}

void Kernel::backward_data(const KernelCall& c) {
  const Sums dx(c.outs[0], at<void>(c, places_.sums));
  take_weights(c, floats(c.ins[1]));
  dx.begin(nullptr);
  with_element(c.ins[0], [&](auto element) {
    using T = decltype(element);
    for (size_t t = 0; t < taps_.size(); t++) {
      float* const products = at<float>(c, places_.x);
      void* const data[] = {gather(Pixels<T>::of_y(c.ins[0], taps_[t]), at<T>(c, places_.y)), plane(c, t), products};
      products_[t].bound.run(data, at<void>(c, places_.product));
      add_back(Pixels<float>::of_x(dx.floats(), g_.window, taps_[t]), products);
    }
  });
  dx.end();
}

void Kernel::backward_weights(const KernelCall& c) {
  const View &x = c.ins[0], &dy = c.ins[1];
  with_element(x, [&](auto element) {
    using T = decltype(element);
    for (size_t t = 0; t < taps_.size(); t++) {
      void* const data[] = {gather(Pixels<T>::of_x(x, g_.window, taps_[t]), at<T>(c, places_.x)),
                            gather(Pixels<T>::of_y(dy, taps_[t]), at<T>(c, places_.y)), plane(c, t)};
      products_[t].bound.run(data, at<void>(c, places_.product));
    }
  });
  give_weights(c, floats(c.outs[0]));
  if (c.n_outs > 1) bias_gradient(dy, c.workspace, c.outs[1]);
}

}  // namespace spillway::cpu::taps
