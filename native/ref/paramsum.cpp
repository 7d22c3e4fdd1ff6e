// The sum of a parameter's gradients.
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct ParamGradSum {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> sum(c.outs[0]);
    for (int64_t k = 0; k < ops::elements(c.outs[0]); k++) {
      double total = 0;
      for (uint32_t i = 0; i < c.n_ins; i++) total += double(Tensor<T>(c.ins[i])[k]);
      sum[k] = T(total);
    }
  }
};

}  // namespace

const KernelEntry param_grad_sum = entry<ParamGradSum>();

}  // namespace spillway::ref
