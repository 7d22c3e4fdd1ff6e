// [B,C,H,W] channels-last to [B,C*H*W,1,1] in PyTorch's order (C, then H, then W), and back: a transposition per image.
#include "ops/flatten.hpp"

#include "cpu/transposed.hpp"

namespace spillway::cpu {
namespace {

struct Flatten : PlainKernel {
  static void run(const KernelCall& c) {
    const View& x = c.ins[0];
    transpose_views(x, c.outs[0], x.dims[0], x.dims[2] * x.dims[3], x.dims[1]);
  }
};

struct FlattenBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const View& dx = c.outs[0];
    transpose_views(c.ins[0], dx, dx.dims[0], dx.dims[1], dx.dims[2] * dx.dims[3]);
  }
};

}  // namespace

const KernelEntry flatten = entry<Flatten>();
const KernelEntry flatten_bwd = entry<FlattenBackward>();

}  // namespace spillway::cpu
