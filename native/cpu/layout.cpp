// A weight laid out: the same elements in another order.
#include "cpu/kernels.hpp"

namespace spillway::cpu {
namespace {

struct LayOut : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View& w = c.ins[0];
    const int64_t channels = w.dims[1], window = w.dims[2] * w.dims[3];
    const float* const from = floats(w);
    T* const laid = static_cast<T*>(c.outs[0].data);
#pragma omp parallel for
    for (int64_t o = 0; o < w.dims[0]; o++)
      for (int64_t at = 0; at < window; at++)
        for (int64_t i = 0; i < channels; i++) laid[(o * window + at) * channels + i] = T(from[(o * channels + i) * window + at]);
  }
};

}  // namespace

const KernelEntry lay_out = entry<LayOut>();

}  // namespace spillway::cpu
