// Gradients that scatter, without races. A thread owns a stripe of dx rows and visits every dy pixel that reaches into it,
// so overlaps add in output order for any number of threads. In: dx, dy, the dy rows that reach into dx rows.
#pragma once
#include <omp.h>

#include "cpu/runs.hpp"

namespace spillway::cpu {

/// Rows [lo, hi) of a whole value.
struct Rows {
  int64_t lo, hi;
};

/// A pixel by its place in the whole image; `b` counts inside the view.
template <class T = float>
T* at_image(const View& v, int64_t b, int64_t h, int64_t w) {
  return pixel_of<T>(v, b, h - v.origin[2], w - v.origin[3]);
}

inline int64_t stripes_of(const View& dx) { return std::min<int64_t>(dx.dims[2], 64); }
inline int64_t stripe_floats(const View& dx) { return (dx.dims[2] + stripes_of(dx) - 1) / stripes_of(dx) * dx.dims[3] * dx.dims[1]; }

/// Sums of bf16 are accumulated as floats, in a stripe for each thread, and rounded once.
inline int64_t stripes_bytes(const View& dx) { return is_bf16(dx) ? use_threads() * stripe_floats(dx) * int64_t(sizeof(float)) : 0; }

/// These rows of one image of dx, as floats: its own, or in the thread's scratch.
inline View stripe_of(const View& dx, Rows rows, void* scratch) {
  if (!is_bf16(dx)) return dx;
  View v = dx;
  v.dtype = DType::f32;
  v.data = static_cast<float*>(scratch) + omp_get_thread_num() * stripe_floats(dx);
  v.origin[2] = rows.lo;
  v.dims[2] = rows.hi - rows.lo;
  v.strides[0] = 0;
  v.strides[2] = dx.dims[3] * dx.dims[1];
  v.strides[3] = dx.dims[1];
  return v;
}

/// Zeroes dx, then calls f(stripe, b, oy, ox, rows) for each stripe of dx and each pixel of the dy rows `reaching(rows)`.
/// `scratch` holds stripes_bytes().
template <class Reaching, class F>
void gather_stripes(const View& dx, const View& dy, void* scratch, Reaching reaching, F f) {
  const int64_t stripes = stripes_of(dx), left = dx.origin[3], right = ops::upper(dx, 3);
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < dx.dims[0]; b++)
    for (int64_t i = 0; i < stripes; i++) {
      const Rows rows{dx.origin[2] + i * dx.dims[2] / stripes, dx.origin[2] + (i + 1) * dx.dims[2] / stripes};
      const View stripe = stripe_of(dx, rows, scratch);
      for (int64_t h = rows.lo; h < rows.hi; h++)
        for (int64_t w = left; w < right; w++) std::fill_n(at_image(stripe, b, h, w), dx.dims[1], 0.0f);
      const Rows outputs = reaching(rows);
      for (int64_t oy = outputs.lo; oy < outputs.hi; oy++)
        for (int64_t ox = dy.origin[3]; ox < ops::upper(dy, 3); ox++) f(stripe, b, oy, ox, rows);
      for (int64_t h = rows.lo; is_bf16(dx) && h < rows.hi; h++)
        for (int64_t w = left; w < right; w++) store(at_image(stripe, b, h, w), at_image<Bf16>(dx, b, h, w), dx.dims[1]);
    }
}

/// A kernel that gathers its output.
struct GatheringKernel : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return stripes_bytes(c.outs[0]); }
};

}  // namespace spillway::cpu
