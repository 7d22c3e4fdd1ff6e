// Taps one after the other: their pixels of either side are gathered, multiplied by oneDNN's 1x1 convolution, and added back.
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

std::shared_ptr<const Convolution> product_of(Direction direction, const Conv2d& g, const Tap& tap) {
  WindowAxis columns, row;
  columns.in_size = columns.in_extent = columns.out_size = tap.pixels;
  row.in_size = row.in_extent = row.out_size = 1;
  const auto product = convolution_of(direction, {1, g.in_channels, g.out_channels, 1, {row, columns}}, false, false);
  if (!product->compiled) throw std::runtime_error("oneDNN has no product for these channels");
  return product;
}

/// Where everything lies in the scratch: planes of weights, one [O,I] a tap; pixels of either side; the product's own scratch.
struct Places {
  explicit Places(Direction direction, const Conv2d& g) : taps(live_taps(g)) {
    int64_t pixels = 0, own = 0;
    for (const Tap& tap : taps) {
      pixels = std::max(pixels, tap.pixels);
      own = std::max(own, product_of(direction, g, tap)->workspace_bytes);
    }
    WorkspaceLayout layout;
    planes = layout.place(floats_bytes(int64_t(taps.size()) * g.in_channels * g.out_channels));
    x = layout.place(floats_bytes(pixels * g.in_channels));
    y = layout.place(floats_bytes(pixels * g.out_channels));
    product = layout.place(own);
    bytes = layout.bytes();
  }
  static constexpr int64_t floats_bytes(int64_t n) { return n * int64_t(sizeof(float)); }

  std::vector<Tap> taps;
  int64_t planes, x, y, product, bytes;
};

/// A tap's pixels of one side.
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
  float* first() const { return pixel_of(view, 0, row, column); }

  /// Calls f(in the view, gathered, floats) for each stretch that is contiguous in both.
  template <class F>
  void each(float* together, F f) const {
    const int64_t channels = view.dims[1], stretches = column_step == 1 ? 1 : columns, length = column_step == 1 ? columns * channels : channels;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < view.dims[0] * rows; i++)
      for (int64_t s = 0; s < stretches; s++)
        f(pixel_of(view, i / rows, row + i % rows * row_step, column + s * column_step), together + (i * columns + s) * channels, length);
  }
};

float* gather(const Pixels& pixels, float* to) {
  if (pixels.gathered()) return pixels.first();
  pixels.each(to, [](const float* from, float* at, int64_t n) { std::copy_n(from, n, at); });
  return to;
}

void add_back(const Pixels& pixels, float* sums) {
  pixels.each(sums, [](float* to, const float* from, int64_t n) {
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

/// Every pixel of y: the bias, or zero.
void fill(const View& y, const float* bias) {
  if (!bias) return each_run<1>({&y}, [](Pointers<1> at, int64_t n) { std::fill_n(at[0], n, 0.0f); });
  const int64_t channels = y.dims[1];
  const int64_t pixels = ops::elements(y) / channels;
  float* const values = floats(y);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < pixels; i++) std::copy_n(bias, channels, values + i * channels);
}

/// The scratch of one call.
struct Scratch {
  Scratch(const Places& p, const Conv2d& g, void* workspace)
      : planes(g, p.taps, at(workspace, p.planes)), x(at(workspace, p.x)), y(at(workspace, p.y)), product(at(workspace, p.product)) {}
  static float* at(void* workspace, int64_t offset) { return reinterpret_cast<float*>(static_cast<char*>(workspace) + offset); }
  Planes planes;
  float *x, *y, *product;
};

}  // namespace

int64_t workspace_bytes(Direction direction, const Conv2d& g, const KernelCall& c) {
  const int64_t bias = direction == Direction::backward_weights && c.n_outs > 1 ? channel_sums_bytes<1>(c.ins[1]) : 0;
  return std::max(Places(direction, g).bytes, bias);
}

void prepare(Direction direction, const Conv2d& g) {
  for (const Tap& tap : live_taps(g)) product_of(direction, g, tap)->compiled->prepare();
}

void forward(const Conv2d& g, const KernelCall& c) {
  const Places places(Direction::forward, g);
  const Scratch scratch(places, g, c.workspace);
  const View &x = c.ins[0], &y = c.outs[0];
  scratch.planes.take_from(floats(c.ins[1]));
  fill(y, c.n_ins > 2 ? floats(c.ins[2]) : nullptr);
  for (const Tap& tap : places.taps) {
    float* const from = gather(Pixels::of_x(x, g.window, tap), scratch.x);
    product_of(Direction::forward, g, tap)->compiled->run({from, scratch.planes.of(tap), scratch.y}, scratch.product);
    add_back(Pixels::of_y(y, tap), scratch.y);
  }
}

void backward_data(const Conv2d& g, const KernelCall& c) {
  const Places places(Direction::backward_data, g);
  const Scratch scratch(places, g, c.workspace);
  const View &dy = c.ins[0], &dx = c.outs[0];
  scratch.planes.take_from(floats(c.ins[1]));
  fill(dx, nullptr);
  for (const Tap& tap : places.taps) {
    float* const from = gather(Pixels::of_y(dy, tap), scratch.y);
    product_of(Direction::backward_data, g, tap)->compiled->run({from, scratch.planes.of(tap), scratch.x}, scratch.product);
    add_back(Pixels::of_x(dx, g.window, tap), scratch.x);
  }
}

void backward_weights(const Conv2d& g, const KernelCall& c) {
  const Places places(Direction::backward_weights, g);
  const Scratch scratch(places, g, c.workspace);
  const View &x = c.ins[0], &dy = c.ins[1];
  for (const Tap& tap : places.taps) {
    float* const of_x = gather(Pixels::of_x(x, g.window, tap), scratch.x);
    float* const of_y = gather(Pixels::of_y(dy, tap), scratch.y);
    product_of(Direction::backward_weights, g, tap)->compiled->run({of_x, of_y, scratch.planes.of(tap)}, scratch.product);
  }
  scratch.planes.give_to(floats(c.outs[0]));
  if (c.n_outs > 1) bias_gradient(dy, c.workspace, c.outs[1]);
}

}  // namespace spillway::cpu::taps
