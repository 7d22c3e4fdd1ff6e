// Stochastic depth by counter: an image's lot is drawn for its place in the whole batch, so tiles and recompute agree.
#include "core/philox.hpp"
#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

View image_of(const View& v, int64_t image) {
  View one = v;
  one.data = static_cast<std::byte*>(v.data) + image * v.strides[0] * int64_t(dtype_bytes(v.dtype));
  one.dims[0] = 1;
  return one;
}

struct DropImages : PlainKernel {
  static void run(const KernelCall& c) {
    const auto a = DropImagesAttrs::read(c.attrs);
    const View& y = c.outs[0];
    const uint64_t stream = dropout_stream(c.step->step, uint32_t(a.key));
    const uint32_t threshold = dropout_threshold(a.p);
    for (int64_t b = 0; b < y.dims[0]; b++) {
      const bool keep = dropout_keeps(c.step->seed, stream, uint64_t(y.origin[0] + b), threshold);
      const View from = image_of(c.ins[0], b), to = image_of(y, b);
      const float scale = float(1 / (1 - a.p));
      // A dropped element is zero, not a product with zero: an infinity is dropped, too.
      each_run<2>({&to, &from}, [keep, scale](Pointers<2> at, int64_t n) {
        float *const kept = at[0], *const x = at[1];
        if (!keep)
          std::fill_n(kept, n, 0.0f);
        else
#pragma omp simd
          for (int64_t i = 0; i < n; i++) kept[i] = x[i] * scale;
      });
    }
  }
};

}  // namespace

const KernelEntry drop_images = entry<DropImages>();
const KernelEntry drop_images_bwd = entry<DropImages>();

}  // namespace spillway::cpu
