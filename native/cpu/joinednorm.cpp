// Batch norm (and rectifier) of values that stand side by side along C, each read where it lies.
#include "cpu/rectified_norm.hpp"

namespace spillway::cpu {
namespace {

struct JoinStats : PlainKernel {
  static void run(const KernelCall& c) {
    float* to = floats(c.outs[0]);
    for (int64_t row = 0; row < 4; row++)
      for (uint32_t i = 0; i < c.n_ins; i++) {
        const int64_t channels = c.ins[i].dims[1];
        to = std::copy_n(floats(c.ins[i]) + row * channels, channels, to);
      }
  }
};

struct JoinedNorm : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return 2 * c.outs[0].dims[1] * int64_t(sizeof(float)); }
  static void run(const KernelCall& c) {
    apply_norm(rectified_norm(c, ops::parts_of(c, 3), 0, JoinedNormAttrs::read(c.attrs)), c.outs[0], c.workspace);
  }
};

struct JoinedNormBackwardReduce : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return reduce_norm_bytes(c.ins[0]); }
  static void run(const KernelCall& c) {
    const RectifiedNorm norm = rectified_norm(c, ops::parts_of(c, 4), 1, JoinedNormBwdReduceAttrs::read(c.attrs));
    reduce_norm(norm, c.ins[0], c.outs[0], c.outs[1], c.workspace);
  }
};

struct JoinedNormBackwardData : Affine<4> {
  static void run(const KernelCall& c) {
    const auto a = JoinedNormBwdDataAttrs::read(c.attrs);
    const RectifiedNorm norm = rectified_norm(c, ops::parts_of(c, uint32_t(6 + a.onto)), 1, a);
    if (a.onto)
      norm_gradient<1>(norm, c.ins[0], c.ins + 4, {&c.ins[6]}, c.outs[0], c.workspace);
    else
      norm_gradient<0>(norm, c.ins[0], c.ins + 4, {}, c.outs[0], c.workspace);
  }
};

}  // namespace

const KernelEntry join_stats = entry<JoinStats>();
const KernelEntry joined_norm = entry<JoinedNorm>();
const KernelEntry joined_norm_bwd_reduce = entry<JoinedNormBackwardReduce>();
const KernelEntry joined_norm_bwd_data = entry<JoinedNormBackwardData>();

}  // namespace spillway::cpu
