// The sum of a parameter's gradients, in place of the first where the plan says so.

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

struct ParamGradSum : PlainKernel {
  static void run(const KernelCall& c) {
    const View& sum = c.outs[0];
    for (uint32_t i = 1; i < c.n_ins; i++)
      each_chunk<3>({&sum, i == 1 ? &c.ins[0] : &sum, &c.ins[i]}, [](Pointers<3> at, int64_t n) {
        float *const to = at[0], *const left = at[1], *const right = at[2];
#pragma omp simd
        for (int64_t k = 0; k < n; k++) to[k] = left[k] + right[k];
      });
    if (c.n_ins == 1 && c.ins[0].data != sum.data) std::copy_n(floats(c.ins[0]), ops::elements(sum), floats(sum));
  }
};

}  // namespace

const KernelEntry param_grad_sum = entry<ParamGradSum>();

}  // namespace spillway::cpu
