// Products of tensors (the second may have one value for many elements), products of a tensor and a parameter, and their gradients.
#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"
#include "cpu/zeros.hpp"

namespace spillway::cpu {
namespace {

/// The factor as a view of the box of x: its single elements are repeated.
View spread(const View& factor, const View& x) {
  View v = factor;
  for (int d = 0; d < 4; d++) {
    if (v.dims[d] == 1) v.strides[d] = 0;
    v.dims[d] = x.dims[d];
  }
  return v;
}

/// y = x·factor of each pixel. Neighbours of one factor are a run of numbers if they lie side by side. `outside`: pixels of factor 0 that
/// are left out, or null.
template <class T>
void scale_pixels(const View& y, const View& x, const View& factor, const Outside* outside) {
  const int64_t most = dense_rows(x) && dense_rows(y) ? y.dims[3] : 1;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < y.dims[0] * y.dims[2]; row++) {
    const int64_t b = row / y.dims[2], h = row % y.dims[2];
    const auto factor_at = [&](int64_t w) { return float(*pixel_of<T>(factor, b, h, w)); };
    each_inside(outside, y, row, most, [&](Columns columns) {
      for (int64_t w = columns.from; w < columns.to;) {
        const T* const from = pixel_of<T>(x, b, h, w);
        T* const to = pixel_of<T>(y, b, h, w);
        const float s = factor_at(w);
        const int64_t first = w++;
        while (w < columns.to && factor_at(w) == s) w++;
        const int64_t elements = (w - first) * y.dims[1];
        // Inside of a mask, or outside of it where zeros are already: in place, nothing changes.
        if (from == to && (s == 1 || (s == 0 && all_zero(from, elements)))) continue;
        each_lane_group(elements, [&](int64_t lane, int64_t count) {
          float scaled[lanes];
#pragma omp simd
          for (int64_t c = 0; c < count; c++) scaled[c] = float(from[lane + c]) * s;
          store(scaled, to + lane, count);
        });
      }
    });
  }
}

struct Multiply : PlainKernel {
  static void run(const KernelCall& c) {
    const View &y = c.outs[0], &x = c.ins[0];
    const auto product = [](Pointers<3> at, int64_t n) {
      float *const to = at[0], *const from = at[1], *const factor = at[2];
#pragma omp simd
      for (int64_t i = 0; i < n; i++) to[i] = from[i] * factor[i];
    };
    if (ops::same_dims(x, c.ins[1])) return each_run<3>({&y, &x, &c.ins[1]}, product);
    const View factor = spread(c.ins[1], x);
    if (factor.strides[1] == 0) return with_element(y, [&](auto element) { scale_pixels<decltype(element)>(y, x, factor, outside_of(c)); });
    each_pixel<3>({&y, &x, &factor}, [product](Pointers<3> at, int64_t, int64_t n) { product(at, n); });
  }
};

struct Scale : PlainKernel {
  static void run(const KernelCall& c) {
    map_channels<0, 1>({&c.ins[0], 1}, {}, {floats(c.ins[1])}, c.outs[0], [](const auto& x, const auto& gamma) { return x[0] * gamma[0]; });
  }
};

constexpr auto products = [](const auto& element, const auto&) { return std::array{element[0] * element[1]}; };

/// Σ x·dy over all pixels of the views, for each channel.
void sum_products(const View& x, const View& dy, void* scratch, float* sums) {
  double* const totals = static_cast<double*>(scratch);
  channel_sums<float, 1>(Summands<2, 0>{{&x, 1}, {&dy}, {}}, totals, products);
  std::copy_n(totals, x.dims[1], sums);
}

struct SumOverSpace : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return channel_sums_bytes<1>(image_of(c.ins[0], 0)); }
  static void run(const KernelCall& c) {
    for (int64_t b = 0; b < c.ins[0].dims[0]; b++)
      sum_products(image_of(c.ins[0], b), image_of(c.ins[1], b), c.workspace, pixel_of(c.outs[0], b, 0, 0));
  }
};

struct SumOverChannels : PlainKernel {
  static void run(const KernelCall& c) {
    with_element(c.ins[0], [&](auto element) { of_pixels<decltype(element)>(c.ins[0], c.ins[1], c.outs[0]); });
  }
  template <class T>
  static void of_pixels(const View& x, const View& dy, const View& ds) {
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const T *const value = pixel_of<T>(x, b, h, w), *const gradient = pixel_of<T>(dy, b, h, w);
          double total = 0;
          for (int64_t ch = 0; ch < x.dims[1]; ch++) total += double(value[ch]) * double(gradient[ch]);
          *pixel_of(ds, b, h, w) = float(total);
        }
  }
};

struct ScaleGradient : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return channel_sums_bytes<1>(c.ins[0]); }
  static void run(const KernelCall& c) { sum_products(c.ins[0], c.ins[1], c.workspace, floats(c.outs[0])); }
};

}  // namespace

const KernelEntry multiply = entry<Multiply>();
const KernelEntry multiply_bwd_data = entry<Multiply>();
const KernelEntry multiply_bwd_space = entry<SumOverSpace>();
const KernelEntry multiply_bwd_channels = entry<SumOverChannels>();
const KernelEntry scale = entry<Scale>();
const KernelEntry scale_bwd_data = entry<Scale>();
const KernelEntry scale_bwd_weights = entry<ScaleGradient>();

}  // namespace spillway::cpu
