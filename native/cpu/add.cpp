// Sums of equal boxes, and of gradients that cover parts of a box (zero outside). In place of the first input where
// the plan says so: each output element is written after its own inputs are read.
#include "ops/add.hpp"

#include <cstring>

#include "cpu/rectify.hpp"

namespace spillway::cpu {
namespace {

void add_to(const View& y, const View& x) {
  each_run<2>({&y, &x}, [](Pointers<2> at, int64_t n) {
    float *const sum = at[0], *const term = at[1];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) sum[i] += term[i];
  });
}

void add_pair(const View& y, const View& a, const View& b, const Outside* outside) {
  each_run<3>(
      {&y, &a, &b},
      [](Pointers<3> at, int64_t n) {
        float *const sum = at[0], *const left = at[1], *const right = at[2];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) sum[i] = left[i] + right[i];
      },
      outside);
}

/// A few channels of one pixel of an input, or nothing where its box does not hold them.
void add_channels(const View& x, const int64_t (&place)[4], int64_t channels, float* sums) {
  for (const int d : {0, 2, 3})
    if (place[d] < x.origin[d] || place[d] >= ops::upper(x, d)) return;
  const int64_t lo = std::max(place[1], x.origin[1]), hi = std::min(place[1] + channels, ops::upper(x, 1));
  const Bf16* const term = pixel_of<Bf16>(x, place[0] - x.origin[0], place[2] - x.origin[2], place[3] - x.origin[3]) - x.origin[1];
#pragma omp simd
  for (int64_t c = lo; c < hi; c++) sums[c - place[1]] += float(term[c]);
}

/// Sums of bf16 are rounded once, however many terms they have: a few channels at a time.
void add_all(const KernelCall& c) {
  constexpr int64_t most = 256;
  const View& y = c.outs[0];
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < y.dims[0]; b++)
    for (int64_t h = 0; h < y.dims[2]; h++)
      for (int64_t w = 0; w < y.dims[3]; w++)
        for (int64_t first = 0; first < y.dims[1]; first += most) {
          const int64_t place[4] = {y.origin[0] + b, y.origin[1] + first, y.origin[2] + h, y.origin[3] + w},
                        channels = std::min(most, y.dims[1] - first);
          float sums[most] = {};
          for (uint32_t i = 0; i < c.n_ins; i++) add_channels(c.ins[i], place, channels, sums);
          store(sums, pixel_of<Bf16>(y, b, h, w) + first, channels);
        }
}

struct Add : PlainKernel {
  static void run(const KernelCall& c) {
    if (c.n_ins > 2 && is_bf16(c.outs[0])) return add_all(c);
    add_pair(c.outs[0], c.ins[0], c.ins[1], outside_of(c));
    for (uint32_t i = 2; i < c.n_ins; i++) add_to(c.outs[0], c.ins[i]);
  }
};

struct AddRelu : PlainKernel {
  static void run(const KernelCall& c) {
    const float slope = float(AddReluAttrs::read(c.attrs).slope);
    if (c.n_ins > 2) {
      Add::run(c);
      rectify(c.outs[0], slope);
      return;
    }
    with_rectifier(slope, [&c](auto rectifier) {
      each_run<3>(
          {&c.outs[0], &c.ins[0], &c.ins[1]},
          [rectifier](Pointers<3> at, int64_t n) {
            float *const y = at[0], *const left = at[1], *const right = at[2];
            const auto passing = rectifier;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
              const float sum = left[i] + right[i];
              y[i] = passing(sum, sum);
            }
          },
          outside_of(c));
    });
  }
};

/// The part of `whole` where `part` lies, as a view with the dims of `part`.
View window_onto(const View& whole, const View& part) {
  View v = whole;
  std::byte* data = static_cast<std::byte*>(whole.data);
  for (int d = 0; d < 4; d++) {
    data += (part.origin[d] - whole.origin[d]) * whole.strides[d] * int64_t(dtype_bytes(whole.dtype));
    v.dims[d] = part.dims[d];
    v.origin[d] = part.origin[d];
  }
  v.data = data;
  return v;
}

void zero(const View& v) {
  each_run<1>({&v}, [](Pointers<1> at, int64_t n) { std::memset(at[0], 0, size_t(n) * sizeof(float)); });
}

void copy(const View& y, const View& x) {
  each_run<2>({&y, &x}, [](Pointers<2> at, int64_t n) { std::memmove(at[0], at[1], size_t(n) * sizeof(float)); });
}

struct GradSum : PlainKernel {
  static void run(const KernelCall& c) {
    const View& sum = c.outs[0];
    const bool first_fills = ops::same_box(c.ins[0], sum);
    if (is_bf16(sum) && (c.n_ins > 2 || !first_fills)) return add_all(c);
    if (first_fills && c.n_ins > 1 && ops::same_box(c.ins[1], sum)) {
      add_pair(sum, c.ins[0], c.ins[1], outside_of(c));
    } else {
      if (!first_fills) zero(sum);
      if (const View place = window_onto(sum, c.ins[0]); place.data != c.ins[0].data) copy(place, c.ins[0]);
      if (c.n_ins > 1) add_to(window_onto(sum, c.ins[1]), c.ins[1]);
    }
    for (uint32_t i = 2; i < c.n_ins; i++) add_to(window_onto(sum, c.ins[i]), c.ins[i]);
  }
};

}  // namespace

const KernelEntry add = entry<Add>();
const KernelEntry add_relu = entry<AddRelu>();
const KernelEntry grad_sum = entry<GradSum>();

}  // namespace spillway::cpu
