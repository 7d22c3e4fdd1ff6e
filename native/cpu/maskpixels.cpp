// Pixels of a mask: factors of losses, labels that losses ignore outside, and values for max pools outside.
#include "ops/maskpixels.hpp"

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

/// Calls f(b, h, w) for each pixel of a view.
template <class F>
void each_place(const View& v, F f) {
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < v.dims[0]; b++)
    for (int64_t h = 0; h < v.dims[2]; h++)
      for (int64_t w = 0; w < v.dims[3]; w++) f(b, h, w);
}

struct MaskFactors : PlainKernel {
  static void run(const KernelCall& c) {
    const ops::Statistics<float> stats(c.ins[1]);
    const View &mask = c.ins[0], &factors = c.outs[0];
    each_place(factors, [&](int64_t b, int64_t h, int64_t w) {
      *pixel_of(factors, b, h, w) = float(ops::mask_factor(double(*pixel_of(mask, b, h, w)), stats));
    });
  }
};

struct MaskLabels : PlainKernel {
  static void run(const KernelCall& c) {
    const int32_t outside = int32_t(MaskLabelsAttrs::read(c.attrs).ignore_index);
    const View &labels = c.ins[0], &mask = c.ins[1], &y = c.outs[0];
    each_place(y, [&](int64_t b, int64_t h, int64_t w) {
      const int32_t label = *pixel_of<int32_t>(labels, b, h, w);
      *pixel_of<int32_t>(y, b, h, w) = *pixel_of(mask, b, h, w) > 0 ? label : outside;
    });
  }
};

struct MaskFill : PlainKernel {
  static void run(const KernelCall& c) {
    const float value = float(MaskFillAttrs::read(c.attrs).value);
    const View &x = c.ins[0], &mask = c.ins[1], &y = c.outs[0];
    with_element(y, [&](auto element) {
      using T = decltype(element);
      each_place(y, [&](int64_t b, int64_t h, int64_t w) {
        T* const to = pixel_of<T>(y, b, h, w);
        if (float(*pixel_of<T>(mask, b, h, w)) > 0)
          std::copy_n(pixel_of<T>(x, b, h, w), y.dims[1], to);
        else
          std::fill_n(to, y.dims[1], T(value));
      });
    });
  }
};

}  // namespace

const KernelEntry mask_factors = entry<MaskFactors>();
const KernelEntry mask_labels = entry<MaskLabels>();
const KernelEntry mask_fill = entry<MaskFill>();

}  // namespace spillway::cpu
