// Queries and keys of unit length, and their gradients. An item has the queries, keys or values of one head in one pixel.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/unitheads.hpp"

namespace spillway::cuda {

/// One head's channels of one pixel, by the number of an item.
template <class T>
struct HeadOfPixel {
  ops::UnitHeadsPlan plan;
  PixelsOf<T> x;

  int64_t items(const View& v) const { return ops::pixels(v) * plan.a.heads * 3; }
  SPILLWAY_BOTH int64_t part(uint32_t i) const { return i % 3; }
  SPILLWAY_BOTH int64_t head(uint32_t i) const { return i / 3 % plan.a.heads; }
  SPILLWAY_BOTH uint32_t pixel(uint32_t i) const { return uint32_t(i / 3 / plan.a.heads); }
  SPILLWAY_BOTH int64_t first(uint32_t i) const { return plan.channel(part(i), head(i)); }
  /// The product of the channels of unit length with others.
  SPILLWAY_BOTH double product(const T* own, const T* other, double inverse) const {
    double sum = 0;
    for (int64_t e = 0; e < plan.head; e++) sum += double(float(own[e])) * inverse * double(float(other[e]));
    return sum;
  }
};

template <>
struct Kernel<OpKind::unit_heads> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const HeadOfPixel<T> of{ops::UnitHeadsPlan(c), PixelsOf<T>(c.ins[0])};
    const PixelsOf<T> y(c.outs[0]);
    const float* const p = floats(c.ins[1]);
    exec.each(of.items(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const T* const from = of.x.at(of.pixel(i)) + of.first(i);
      T* const to = y.at(of.pixel(i)) + of.first(i);
      const double scale = of.part(i) == 0 ? of.plan.scale(double(p[of.head(i)])) : 1;
      const double factor = of.part(i) == 2 ? 1 : of.plan.inverse(from) * scale;
      for (int64_t e = 0; e < of.plan.head; e++) to[e] = float(double(float(from[e])) * factor);
    });
  }
};

template <>
struct Kernel<OpKind::unit_heads_bwd> : OwnKernel {
  /// Slices of pixels: their number depends on the shape only.
  static int64_t slices(const View& x) { return ops::pixels(x) < 1024 ? ops::pixels(x) : 1024; }
  static int64_t workspace(const KernelCall& c) { return slices(c.ins[0]) * ops::UnitHeadsPlan(c).a.heads * int64_t(sizeof(double)); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const HeadOfPixel<T> of{ops::UnitHeadsPlan(c), PixelsOf<T>(c.ins[0])};
    const PixelsOf<T> dy(c.ins[1]), dx(c.outs[0]);
    const float* const p = floats(c.ins[2]);
    float* const dp = floats(c.outs[1]);
    double* const sums = static_cast<double*>(c.workspace);
    const int64_t heads = of.plan.a.heads, pixels = ops::pixels(c.ins[0]), count = slices(c.ins[0]);
    exec.each(count * heads, [=] SPILLWAY_BOTH(uint32_t i) {
      const int64_t head = i % heads, slice = i / heads, first = of.plan.channel(0, head);
      double sum = 0;
      for (int64_t pixel = slice * pixels / count; pixel < (slice + 1) * pixels / count; pixel++) {
        const T* const own = of.x.at(uint32_t(pixel)) + first;
        sum += of.product(own, dy.at(uint32_t(pixel)) + first, of.plan.inverse(own));
      }
      sums[i] = sum;
    });
    exec.each(heads, [=] SPILLWAY_BOTH(uint32_t n) {
      double total = 0;
      for (int64_t slice = 0; slice < count; slice++) total += sums[slice * heads + n];
      dp[n] = double(p[n]) > of.plan.a.most ? 0.0f : float(total * of.plan.scale(double(p[n])));
    });
    exec.each(of.items(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const T *const own = of.x.at(of.pixel(i)) + of.first(i), *const back = dy.at(of.pixel(i)) + of.first(i);
      T* const to = dx.at(of.pixel(i)) + of.first(i);
      const bool is_value = of.part(i) == 2;
      const double scale = of.part(i) == 0 ? of.plan.scale(double(p[of.head(i)])) : 1;
      const double inverse = is_value ? 1 : of.plan.inverse(own), along = is_value ? 0 : of.product(own, back, inverse);
      for (int64_t e = 0; e < of.plan.head; e++)
        to[e] = float(scale * inverse * (double(float(back[e])) - double(float(own[e])) * inverse * along));
    });
  }
};

}  // namespace spillway::cuda
