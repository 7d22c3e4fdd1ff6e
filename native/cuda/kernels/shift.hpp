// A trained value added to each channel or element, and its gradient.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/shift.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::shift> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& v = c.outs[0];
    const PixelsOf<T> x(c.ins[0]), y(v);
    const float* const p = floats(c.ins[1]);
    const ops::ShiftPlan plan(c, v);
    const int64_t first = v.origin[1], top = v.origin[2], left = v.origin[3];
    exec.each(ops::elements(v), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place at = Place::of(i, y.channels, y.height, y.width);
      y.at(at.b, at.h, at.w)[at.c] = float(x.at(at.b, at.h, at.w)[at.c]) + p[plan.at(at.c + first, at.h + top, at.w + left)];
    });
  }
};

/// Columns are channels, terms pixels; or an item has one element and all images.
template <>
struct Kernel<OpKind::shift_bwd> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& v = c.ins[0];
    const PixelsOf<T> dy(v);
    float* const dp = floats(c.outs[0]);
    const ops::ShiftPlan plan(c, v);
    const int64_t first = v.origin[1], top = v.origin[2], left = v.origin[3], images = v.dims[0];
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) { dp[i] = 0; });
    if (plan.elements == 0) {
      return sum_terms<1>(
          exec, ops::pixels(v), v.dims[1], c.workspace,
          [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch, double* sum) { sum[0] += double(float(dy.at(pixel)[ch])); },
          [=] SPILLWAY_BOTH(uint32_t ch, const double* sum) { dp[ch + first] = float(sum[0]); });
    }
    exec.each(ops::elements(v) / images, [=] SPILLWAY_BOTH(uint32_t i) {
      const Place at = Place::of(i, dy.channels, dy.height, dy.width);
      double sum = 0;
      for (int64_t b = 0; b < images; b++) sum += double(float(dy.at(b, at.h, at.w)[at.c]));
      dp[plan.at(at.c + first, at.h + top, at.w + left)] = float(sum);
    });
  }
};

}  // namespace spillway::cuda
