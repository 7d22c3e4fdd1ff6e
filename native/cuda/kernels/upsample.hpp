// Resampling and its gradient. The gradient gathers: an item owns a pixel of dx and looks at the output pixels near it.
#pragma once
#include "cuda/kernels/pool.hpp"
#include "ops/upsample.hpp"

namespace spillway::cuda {

using ops::Between;
using ops::Resampling;

/// Output rows [lo, hi) of the view; no others depend on this input row. There is a row of slack on either side.
SPILLWAY_BOTH inline Rows outputs_near(const Resampling& r, int32_t row, int32_t out_lo, int32_t out_hi) {
  const int64_t num = r.mode == Resampling::points ? r.to - 1 : r.to,
                den = r.mode == Resampling::points ? (r.from > 1 ? r.from - 1 : 1) : r.from;
  const int64_t first = (int64_t(row) - 1) * num / den - 2, last = (int64_t(row) + 2) * num / den + 3;
  const bool all = r.mode == Resampling::points && r.from == 1;
  return {all || first < out_lo ? out_lo : int32_t(first), all || last > out_hi ? out_hi : int32_t(last)};
}

/// The weight with which an output pixel is made of this input pixel.
SPILLWAY_BOTH inline double share_of(const Between& b, int64_t row) { return b.first <= row && row <= b.second ? b.share(row) : 0.0; }

template <>
struct Kernel<OpKind::upsample> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const ImageOf<T> x(call.ins[0]);
    const ops::Resamplings g = ops::upsample_geometry(UpsampleAttrs::read(call.attrs));
    each_element<T>(exec, call.outs[0], [=] SPILLWAY_BOTH(int64_t b, uint32_t c, int64_t oy, int64_t ox, T & y) {
      const Between h = g.h.at(oy), w = g.w.at(ox);
      double sum = 0;
      for (int64_t iy = h.first; iy <= h.second; iy++) {
        double row = 0;
        for (int64_t ix = w.first; ix <= w.second; ix++) row += w.share(ix) * double(x.at(b, iy, ix)[c]);
        sum += h.share(iy) * row;
      }
      y = float(sum);
    });
  }
};

template <>
struct Kernel<OpKind::upsample_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const View& out = call.ins[0];
    const ImageOf<T> dy(out);
    const ops::Resamplings g = ops::upsample_geometry(UpsampleBwdAttrs::read(call.attrs));
    const int32_t h_lo = int32_t(ops::lower(out, 2)), h_hi = int32_t(ops::upper(out, 2)), w_lo = int32_t(ops::lower(out, 3)),
                  w_hi = int32_t(ops::upper(out, 3));
    each_element<T>(exec, call.outs[0], [=] SPILLWAY_BOTH(int32_t b, uint32_t c, int32_t h, int32_t w, T & dx) {
      const Rows rows = outputs_near(g.h, h, h_lo, h_hi), columns = outputs_near(g.w, w, w_lo, w_hi);
      double sum = 0;
      for (int32_t oy = rows.lo; oy < rows.hi; oy++) {
        const double share = share_of(g.h.at(oy), h);
        if (share == 0) continue;
        for (int32_t ox = columns.lo; ox < columns.hi; ox++) {
          const double weight = share_of(g.w.at(ox), w);
          if (weight != 0) sum += share * weight * double(dy.at(b, oy, ox)[c]);
        }
      }
      dx = float(sum);
    });
  }
};

}  // namespace spillway::cuda
