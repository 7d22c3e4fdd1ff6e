// [B,C,H,W] to [B,C*H*W,1,1] in PyTorch's order (C, then H, then W), and back.
#include "ops/flatten.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Calls f(b, c, h, w, flat) for each element of the image side, in local coordinates.
template <class F>
void each_flat(const View& image, F f) {
  for (int64_t b = 0; b < image.dims[0]; b++) {
    int64_t flat = 0;
    for (int64_t c = 0; c < image.dims[1]; c++)
      for (int64_t h = 0; h < image.dims[2]; h++)
        for (int64_t w = 0; w < image.dims[3]; w++) f(b, c, h, w, flat++);
  }
}

struct Flatten {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), y(call.outs[0]);
    each_flat(call.ins[0], [&](int64_t b, int64_t c, int64_t h, int64_t w, int64_t flat) { y.at(b, flat, 0, 0) = x.at(b, c, h, w); });
  }
};

struct FlattenBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> dy(call.ins[0]), dx(call.outs[0]);
    each_flat(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w, int64_t flat) { dx.at(b, c, h, w) = dy.at(b, flat, 0, 0); });
  }
};

}  // namespace

const KernelEntry flatten = entry<Flatten>();
const KernelEntry flatten_bwd = entry<FlattenBackward>();

}  // namespace spillway::ref
