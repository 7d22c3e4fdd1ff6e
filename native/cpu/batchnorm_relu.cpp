// Batch norm and the rectifier that follows it, of one value.
#include "cpu/rectified_norm.hpp"

namespace spillway::cpu {
namespace {

ops::Parts alone(const View& x) { return {&x, 1}; }

struct BnReluApply : Affine<2> {
  static void run(const KernelCall& c) {
    apply_norm(rectified_norm(c, alone(c.ins[0]), 1, BnReluApplyAttrs::read(c.attrs)), c.outs[0], c.workspace);
  }
};

struct BnReluBackwardReduce : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return reduce_norm_bytes(c.ins[1]); }
  static void run(const KernelCall& c) {
    const RectifiedNorm norm = rectified_norm(c, alone(c.ins[0]), 2, BnReluBwdReduceAttrs::read(c.attrs));
    reduce_norm(norm, c.ins[1], c.outs[0], c.outs[1], c.workspace);
  }
};

struct BnReluBackwardData : Affine<4> {
  static void run(const KernelCall& c) {
    const RectifiedNorm norm = rectified_norm(c, alone(c.ins[0]), 2, BnReluBwdDataAttrs::read(c.attrs));
    norm_gradient<0>(norm, c.ins[1], c.ins + 5, {}, c.outs[0], c.workspace);
  }
};

}  // namespace

const KernelEntry bn_relu_apply = entry<BnReluApply>();
const KernelEntry bn_relu_bwd_reduce = entry<BnReluBackwardReduce>();
const KernelEntry bn_relu_bwd_data = entry<BnReluBackwardData>();

}  // namespace spillway::cpu
