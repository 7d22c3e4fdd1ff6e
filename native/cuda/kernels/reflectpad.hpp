// Reflection padding and its gradient. The gradient gathers: an item owns a pixel of dx and looks at the three places where
// it may stand along each axis.
#pragma once
#include "cuda/kernels/pool.hpp"
#include "ops/reflectpad.hpp"

namespace spillway::cuda {

/// The rows of the padded view where a row of the image stands; -1 where it does not.
struct Standing {
  int64_t rows[3];
  SPILLWAY_BOTH static Standing of(const ops::Mirror& m, int64_t row, int64_t lo, int64_t hi) {
    Standing s{{row >= 1 && row <= m.pad ? m.pad - row : -1, m.pad + row,
                row <= m.extent - 2 && row >= m.extent - 1 - m.after ? m.pad + 2 * (m.extent - 1) - row : -1}};
    for (int64_t& at : s.rows)
      if (at < lo || at >= hi) at = -1;
    return s;
  }
};

template <>
struct Kernel<OpKind::reflect_pad> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const ImageOf<T> x(call.ins[0]);
    const ops::Mirrors g = ops::reflect_geometry(ReflectPadAttrs::read(call.attrs), call.ins[0]);
    each_element<T>(exec, call.outs[0], [=] SPILLWAY_BOTH(int64_t b, uint32_t c, int64_t oy, int64_t ox, T & y) {
      y = x.at(b, g.h.source(oy), g.w.source(ox))[c];
    });
  }
};

template <>
struct Kernel<OpKind::reflect_pad_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& call) {
    const View& padded = call.ins[0];
    const ImageOf<T> dy(padded);
    const ops::Mirrors g = ops::reflect_geometry(ReflectPadBwdAttrs::read(call.attrs), call.outs[0]);
    const int64_t h_lo = ops::lower(padded, 2), h_hi = ops::upper(padded, 2), w_lo = ops::lower(padded, 3), w_hi = ops::upper(padded, 3);
    each_element<T>(exec, call.outs[0], [=] SPILLWAY_BOTH(int64_t b, uint32_t c, int64_t h, int64_t w, T & dx) {
      const Standing rows = Standing::of(g.h, h, h_lo, h_hi), columns = Standing::of(g.w, w, w_lo, w_hi);
      float sum = 0;
      for (const int64_t oy : rows.rows)
        for (const int64_t ox : columns.rows)
          if (oy >= 0 && ox >= 0) sum += dy.at(b, oy, ox)[c];
      dx = sum;
    });
  }
};

}  // namespace spillway::cuda
