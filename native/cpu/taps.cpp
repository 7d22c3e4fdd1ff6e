// Taps one after the other: their pixels of either side are gathered, multiplied by oneDNN's 1x1 convolution, and added back.
// Products of bf16 are added as floats and rounded once, as the direct convolution rounds.
#include "cpu/taps.hpp"

#include "cpu/channel_sums.hpp"

namespace spillway::cpu::taps {
namespace {

using ops::Conv2d;
using ops::Window;
using ops::WindowAxis;

/// Rows (or columns) of both views that a window's position joins: from y's `out` and x's `in` on, x's at the stride.
struct Stripe {
  int64_t out = 0, in = 0, count = 0;
};

Stripe joined(const WindowAxis& a, int64_t position) {
  const int64_t in_of_first = a.start(a.out_lo) + position * a.dilation - a.in_lo;
  const int64_t out = in_of_first < 0 ? (-in_of_first + a.stride - 1) / a.stride : 0, in = in_of_first + out * a.stride;
  const int64_t held = in < a.in_size ? (a.in_size - 1 - in) / a.stride + 1 : 0;
  return {out, in, std::clamp<int64_t>(a.out_size - out, 0, held)};
}

struct Tap {
  int64_t position;  // in the window, row by row
  Stripe rows, columns;
  int64_t pixels;  // of all images
};

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

std::shared_ptr<const Convolution> product_of(Direction direction, const Conv2d& g, bool narrow, const Tap& tap) {
  WindowAxis columns, row;
  columns.in_size = columns.in_extent = columns.out_size = tap.pixels;
  row.in_size = row.in_extent = row.out_size = 1;
  const auto product =
      convolution_of(direction, {1, g.in_channels, g.out_channels, 1, {row, columns}}, false, narrow ? Activations::bf16_to_floats : Activations::floats);
  if (!product->compiled) throw std::runtime_error("oneDNN has no product for these channels");
  return product;
}

/// Where everything lies in the scratch: planes of weights, one [O,I] a tap; pixels of either side, those that are written as floats; sums, if the
/// result itself is bf16; the product's own scratch.
struct Places {
  Places(Direction direction, const Conv2d& g, bool narrow) : taps(live_taps(g)) {
    int64_t pixels = 0, own = 0;
    for (const Tap& tap : taps) {
      pixels = std::max(pixels, tap.pixels);
      own = std::max(own, product_of(direction, g, narrow, tap)->workspace_bytes);
    }
    const bool writes_x = direction == Direction::backward_data, writes_y = direction == Direction::forward;
    const int64_t read = narrow ? sizeof(Bf16) : sizeof(float), written = sizeof(float);
    const auto& [h, w] = g.window;
    const int64_t summed = writes_x ? g.in_channels * h.in_size * w.in_size : writes_y ? g.out_channels * h.out_size * w.out_size : 0;
    WorkspaceLayout layout;
    planes = layout.place(int64_t(taps.size()) * g.in_channels * g.out_channels * int64_t(sizeof(float)));
    x = layout.place(pixels * g.in_channels * (writes_x ? written : read));
    y = layout.place(pixels * g.out_channels * (writes_y ? written : read));
    sums = layout.place(narrow ? g.batch * summed * written : 0);
    product = layout.place(own);
    bytes = layout.bytes();
  }

  std::vector<Tap> taps;
  int64_t planes, x, y, sums, product, bytes;
};

/// A tap's pixels of one side, whose view stores T.
template <class T>
struct Pixels {
  const View& view;
  int64_t row, rows, row_step, column, columns, column_step;

  static Pixels of_x(const View& x, const Window& w, const Tap& t) {
    return {x, t.rows.in, t.rows.count, w.h.stride, t.columns.in, t.columns.count, w.w.stride};
  }
  static Pixels of_y(const View& y, const Tap& t) { return {y, t.rows.out, t.rows.count, 1, t.columns.out, t.columns.count, 1}; }

  /// Whether they lie in memory as they would if they were gathered.
  bool gathered() const {
    return row_step == 1 && column_step == 1 && columns == view.dims[3] && (view.dims[0] == 1 || rows == view.dims[2]);
  }
  T* first() const { return pixel_of<T>(view, 0, row, column); }

  /// Calls f(in the view, gathered, elements) for each stretch that is contiguous in both.
  template <class F>
  void each(T* together, F f) const {
    const int64_t channels = view.dims[1], stretches = column_step == 1 ? 1 : columns, length = column_step == 1 ? columns * channels : channels;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < view.dims[0] * rows; i++)
      for (int64_t s = 0; s < stretches; s++)
        f(pixel_of<T>(view, i / rows, row + i % rows * row_step, column + s * column_step), together + (i * columns + s) * channels, length);
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

/// Weights [O,I,positions] beside planes of the taps.
class Planes {
 public:
  Planes(const Conv2d& g, const std::vector<Tap>& taps, float* planes)
      : size_(g.in_channels * g.out_channels), positions_(g.window.h.kernel * g.window.w.kernel), at_(size_t(positions_), nullptr) {
    for (size_t i = 0; i < taps.size(); i++) at_[size_t(taps[i].position)] = planes + int64_t(i) * size_;
  }
  float* of(const Tap& tap) const { return at_[size_t(tap.position)]; }

  void take_from(const float* weights) const {
    each_block([&](int64_t from, int64_t to) {
      for (int64_t p = 0; p < positions_; p++)
        if (float* const plane = at_[size_t(p)])
          for (int64_t i = from; i < to; i++) plane[i] = weights[i * positions_ + p];
    });
  }
  /// Taps that join nothing have a gradient of zero.
  void give_to(float* weights) const {
    each_block([&](int64_t from, int64_t to) {
      for (int64_t p = 0; p < positions_; p++) {
        const float* const plane = at_[size_t(p)];
        for (int64_t i = from; i < to; i++) weights[i * positions_ + p] = plane ? plane[i] : 0.0f;
      }
    });
  }

 private:
  /// Blocks whose weights the first cache holds while all planes take from them.
  template <class F>
  void each_block(F f) const {
    constexpr int64_t block = 512;
#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < size_; from += block) f(from, std::min(size_, from + block));
  }
  int64_t size_, positions_;
  std::vector<float*> at_;
};

/// What products are added to: the result, or floats in the scratch that are rounded to it in the end.
class Sums {
 public:
  Sums(const View& result, void* scratch) : result_(result), floats_(result) {
    if (!is_narrow(result)) return;
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
    if (is_narrow(result_)) each_run<2>({&result_, &floats_}, [](Pointers<2> at, int64_t n) { std::copy_n(at[1], n, at[0]); });
  }

 private:
  const View& result_;
  View floats_;
};

/// One call that is to be run: where its operands' pixels and weights are gathered, and its products made.
class Run {
 public:
  Run(Direction direction, const Conv2d& g, const KernelCall& c)
      : direction_(direction), g_(g), narrow_(ops::is_narrow(c)), workspace_(static_cast<char*>(c.workspace)), places_(direction, g, narrow_),
        planes_(g, places_.taps, at<float>(places_.planes)) {}

  const Planes& planes() const { return planes_; }
  const std::vector<Tap>& taps() const { return places_.taps; }
  template <class T> T* x() const { return at<T>(places_.x); }
  template <class T> T* y() const { return at<T>(places_.y); }
  void* sums() const { return at<void>(places_.sums); }
  void multiply(const Tap& tap, const std::vector<void*>& operands) const {
    product_of(direction_, g_, narrow_, tap)->compiled->run(operands, at<void>(places_.product));
  }

 private:
  template <class T> T* at(int64_t offset) const { return reinterpret_cast<T*>(workspace_ + offset); }

  Direction direction_;
  const Conv2d& g_;
  bool narrow_;
  char* workspace_;
  Places places_;
  Planes planes_;
};

}  // namespace

int64_t workspace_bytes(Direction direction, const Conv2d& g, const KernelCall& c) {
  const int64_t bias = direction == Direction::backward_weights && c.n_outs > 1 ? channel_sums_bytes<1>(c.ins[1]) : 0;
  return std::max(Places(direction, g, ops::is_narrow(c)).bytes, bias);
}

void prepare(Direction direction, const Conv2d& g, const KernelCall& c) {
  for (const Tap& tap : live_taps(g)) product_of(direction, g, ops::is_narrow(c), tap)->compiled->prepare();
}

void forward(const Conv2d& g, const KernelCall& c) {
  const Run run(Direction::forward, g, c);
  const Sums y(c.outs[0], run.sums());
  run.planes().take_from(floats(c.ins[1]));
  y.begin(c.n_ins > 2 ? floats(c.ins[2]) : nullptr);
  with_element(c.ins[0], [&](auto element) {
    using T = decltype(element);
    for (const Tap& tap : run.taps()) {
      run.multiply(tap, {gather(Pixels<T>::of_x(c.ins[0], g.window, tap), run.x<T>()), run.planes().of(tap), run.y<float>()});
      add_back(Pixels<float>::of_y(y.floats(), tap), run.y<float>());
    }
  });
  y.end();
}

void backward_data(const Conv2d& g, const KernelCall& c) {
  const Run run(Direction::backward_data, g, c);
  const Sums dx(c.outs[0], run.sums());
  run.planes().take_from(floats(c.ins[1]));
  dx.begin(nullptr);
  with_element(c.ins[0], [&](auto element) {
    using T = decltype(element);
    for (const Tap& tap : run.taps()) {
      run.multiply(tap, {gather(Pixels<T>::of_y(c.ins[0], tap), run.y<T>()), run.planes().of(tap), run.x<float>()});
      add_back(Pixels<float>::of_x(dx.floats(), g.window, tap), run.x<float>());
    }
  });
  dx.end();
}

void backward_weights(const Conv2d& g, const KernelCall& c) {
  const Run run(Direction::backward_weights, g, c);
  const View &x = c.ins[0], &dy = c.ins[1];
  with_element(x, [&](auto element) {
    using T = decltype(element);
    for (const Tap& tap : run.taps())
      run.multiply(tap, {gather(Pixels<T>::of_x(x, g.window, tap), run.x<T>()), gather(Pixels<T>::of_y(dy, tap), run.y<T>()), run.planes().of(tap)});
  });
  run.planes().give_to(floats(c.outs[0]));
  if (c.n_outs > 1) bias_gradient(dy, c.workspace, c.outs[1]);
}

}  // namespace spillway::cpu::taps
