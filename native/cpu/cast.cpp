// Casts between 16-bit floats and f32: a copy through floats.
#include <cstring>

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

struct Cast : PlainKernel {
  static void run(const KernelCall& c) {
    each_run<2>({&c.outs[0], &c.ins[0]}, [](Pointers<2> at, int64_t n) { std::memcpy(at[0], at[1], size_t(n) * sizeof(float)); });
  }
};

}  // namespace

const KernelEntry to_bf16 = entry<Cast>();
const KernelEntry from_bf16 = entry<Cast>();
const KernelEntry to_bf16_grad = entry<Cast>();
const KernelEntry from_bf16_grad = entry<Cast>();
const KernelEntry to_f16 = entry<Cast>();
const KernelEntry from_f16 = entry<Cast>();
const KernelEntry to_f16_grad = entry<Cast>();
const KernelEntry from_f16_grad = entry<Cast>();

}  // namespace spillway::cpu
