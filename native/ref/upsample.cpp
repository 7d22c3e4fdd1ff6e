// Resampling and its gradient, pixel by pixel in whole-value coordinates.
#include "ops/upsample.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

using ops::Between;

/// Calls f(h, w, weight) for the input pixels that an output pixel is made of.
template <class F>
void each_source(const Between& rows, const Between& columns, F f) {
  for (int64_t h = rows.first; h <= rows.second; h++)
    for (int64_t w = columns.first; w <= columns.second; w++) f(h, w, rows.share(h) * columns.share(w));
}

struct Upsample {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const ops::Resamplings g = ops::upsample_geometry(UpsampleAttrs::read(c.attrs));
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      double sum = 0;
      each_source(g.h.at(oy), g.w.at(ox), [&](int64_t h, int64_t w, double weight) { sum += weight * double(x.global(b, ch, h, w)); });
      y.global(b, ch, oy, ox) = T(sum);
    });
  }
};

struct UpsampleBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> dy(c.ins[0]), dx(c.outs[0]);
    const ops::Resamplings g = ops::upsample_geometry(UpsampleBwdAttrs::read(c.attrs));
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) { dx.global(b, ch, h, w) = T(0); });
    each_element(c.ins[0], [&](int64_t b, int64_t ch, int64_t oy, int64_t ox) {
      const double gradient = double(dy.global(b, ch, oy, ox));
      each_source(g.h.at(oy), g.w.at(ox), [&](int64_t h, int64_t w, double weight) {
        T& sum = dx.global(b, ch, h, w);
        sum = T(double(sum) + weight * gradient);
      });
    });
  }
};

}  // namespace

const KernelEntry upsample = entry<Upsample>();
const KernelEntry upsample_bwd = entry<UpsampleBackward>();

}  // namespace spillway::ref
