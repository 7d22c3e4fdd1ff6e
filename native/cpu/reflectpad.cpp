// Reflection padding copies pixels; its gradient gathers, for each pixel of dx, the copies that stand in the view of dy.
#include "ops/reflectpad.hpp"

#include "cpu/stripes.hpp"

namespace spillway::cpu {
namespace {

struct ReflectPad : PlainKernel {
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const ops::Mirrors g = ops::reflect_geometry(ReflectPadAttrs::read(c.attrs), x);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < y.dims[0]; b++)
      for (int64_t oy = y.origin[2]; oy < ops::upper(y, 2); oy++)
        for (int64_t ox = y.origin[3]; ox < ops::upper(y, 3); ox++)
          std::copy_n(at_image(x, b, g.h.source(oy), g.w.source(ox)), y.dims[1], at_image(y, b, oy, ox));
  }
};

struct ReflectPadBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const View &dy = c.ins[0], &dx = c.outs[0];
    const ops::Mirrors g = ops::reflect_geometry(ReflectPadBwdAttrs::read(c.attrs), dx);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < dx.dims[0]; b++)
      for (int64_t h = dx.origin[2]; h < ops::upper(dx, 2); h++)
        for (int64_t w = dx.origin[3]; w < ops::upper(dx, 3); w++) {
          float* const sum = at_image(dx, b, h, w);
          std::fill_n(sum, dx.dims[1], 0.0f);
          g.h.each_copy(h, [&](int64_t oy) {
            if (oy < dy.origin[2] || oy >= ops::upper(dy, 2)) return;
            g.w.each_copy(w, [&](int64_t ox) {
              if (ox < dy.origin[3] || ox >= ops::upper(dy, 3)) return;
              const float* const gradient = at_image(dy, b, oy, ox);
#pragma omp simd
              for (int64_t i = 0; i < dx.dims[1]; i++) sum[i] += gradient[i];
            });
          });
        }
  }
};

}  // namespace

const KernelEntry reflect_pad = entry<ReflectPad>();
const KernelEntry reflect_pad_bwd = entry<ReflectPadBackward>();

}  // namespace spillway::cpu
