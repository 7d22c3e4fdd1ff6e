// Dropout by counter: the mask is drawn for the element's place in the whole value, so tiles and recompute agree.
#include "core/philox.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

template <class T>
void masked_copy(const KernelCall& call, DropoutAttrs a) {
  const Tensor<T> x(call.ins[0]), y(call.outs[0]);
  const View& whole = call.outs[0];
  const uint64_t stream = dropout_stream(call.step->step, uint32_t(a.key));
  const uint32_t threshold = dropout_threshold(a.p);
  each_element(whole, [&](int64_t b, int64_t c, int64_t h, int64_t w) {
    const int64_t index = ((b * whole.extent[1] + c) * whole.extent[2] + h) * whole.extent[3] + w;
    const bool keep = dropout_keeps(call.step->seed, stream, uint64_t(index), threshold);
    y.global(b, c, h, w) = T(keep ? double(x.global(b, c, h, w)) / (1 - a.p) : 0.0);
  });
}

struct Dropout {
  template <class T>
  static void run(const KernelCall& c) {
    masked_copy<T>(c, DropoutAttrs::read(c.attrs));
  }
};

struct DropoutBackward {
  template <class T>
  static void run(const KernelCall& c) {
    masked_copy<T>(c, DropoutBwdAttrs::read(c.attrs));
  }
};

}  // namespace

const KernelEntry dropout = entry<Dropout>();
const KernelEntry dropout_bwd = entry<DropoutBackward>();

}  // namespace spillway::ref
