// Stochastic depth by counter: an image's lot is drawn for its place in the whole batch, so tiles and recompute agree.
#include "core/philox.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct DropImages {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = DropImagesAttrs::read(call.attrs);
    const Tensor<T> x(call.ins[0]), y(call.outs[0]);
    const uint64_t stream = dropout_stream(call.step->step, uint32_t(a.key));
    const uint32_t threshold = dropout_threshold(a.p);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      const bool keep = dropout_keeps(call.step->seed, stream, uint64_t(b), threshold);
      y.global(b, c, h, w) = T(keep ? double(x.global(b, c, h, w)) / (1 - a.p) : 0.0);
    });
  }
};

}  // namespace

const KernelEntry drop_images = entry<DropImages>();
const KernelEntry drop_images_bwd = entry<DropImages>();

}  // namespace spillway::ref
