// Pixels of a mask: factors of losses, labels that losses ignore outside, and values for max pools outside.
#include "ops/maskpixels.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct MaskFactors {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::Statistics<T> stats(c.ins[1]);
    const Tensor<T> mask(c.ins[0]), factors(c.outs[0]);
    each_pixel(c.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      factors.global(b, 0, h, w) = T(ops::mask_factor(double(mask.global(b, 0, h, w)), stats));
    });
  }
};

struct MaskLabels {
  template <class T>
  static void run(const KernelCall& c) {
    const int32_t outside = int32_t(MaskLabelsAttrs::read(c.attrs).ignore_index);
    const Tensor<int32_t> labels(c.ins[0]), y(c.outs[0]);
    const Tensor<T> mask(c.ins[1]);
    each_pixel(c.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      y.global(b, 0, h, w) = double(mask.global(b, 0, h, w)) > 0 ? labels.global(b, 0, h, w) : outside;
    });
  }
};

struct MaskFill {
  template <class T>
  static void run(const KernelCall& call) {
    const T value = T(MaskFillAttrs::read(call.attrs).value);
    const Tensor<T> x(call.ins[0]), mask(call.ins[1]), y(call.outs[0]);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      y.global(b, c, h, w) = double(mask.global(b, 0, h, w)) > 0 ? x.global(b, c, h, w) : value;
    });
  }
};

}  // namespace

const KernelEntry mask_factors = entry<MaskFactors>();
const KernelEntry mask_labels = entry<MaskLabels>();
const KernelEntry mask_fill = entry<MaskFill>();

}  // namespace spillway::ref
