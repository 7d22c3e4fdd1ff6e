// Gradients that scatter, without races: a thread owns a stripe of dx rows and visits every dy pixel that reaches into it,
// so what overlaps adds in output order whatever the number of threads. In: dx, dy, which dy rows reach into dx rows.
#pragma once
#include "cpu/runs.hpp"

namespace spillway::cpu {

/// Rows [lo, hi) of a whole value.
struct Rows {
  int64_t lo, hi;
};

/// A pixel by its place in the whole image; `b` counts inside the view.
inline float* at_image(const View& v, int64_t b, int64_t h, int64_t w) { return pixel_of(v, b, h - v.origin[2], w - v.origin[3]); }

/// Zeroes dx, then calls f(b, oy, ox, rows) for each stripe of dx and each pixel of the dy rows `reaching(rows)`.
template <class Reaching, class F>
void gather_stripes(const View& dx, const View& dy, Reaching reaching, F f) {
  const int64_t stripes = std::min<int64_t>(dx.dims[2], 64);
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < dx.dims[0]; b++)
    for (int64_t stripe = 0; stripe < stripes; stripe++) {
      const Rows rows{dx.origin[2] + stripe * dx.dims[2] / stripes, dx.origin[2] + (stripe + 1) * dx.dims[2] / stripes};
      for (int64_t h = rows.lo; h < rows.hi; h++)
        for (int64_t w = dx.origin[3]; w < ops::upper(dx, 3); w++) std::fill_n(at_image(dx, b, h, w), dx.dims[1], 0.0f);
      const Rows outputs = reaching(rows);
      for (int64_t oy = outputs.lo; oy < outputs.hi; oy++)
        for (int64_t ox = dy.origin[3]; ox < ops::upper(dy, 3); ox++) f(b, oy, ox, rows);
    }
}

}  // namespace spillway::cpu
