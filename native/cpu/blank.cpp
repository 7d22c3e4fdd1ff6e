// A parameter with zeros in place of some values.
#include "cpu/kernels.hpp"

namespace spillway::cpu {
namespace {

struct Blank : PlainKernel {
  static void run(const KernelCall& c) {
    const auto a = BlankAttrs::read(c.attrs);
    for (int64_t i = 0; i < c.ins[0].dims[0]; i++) floats(c.outs[0])[i] = i >= a.from && i < a.to ? 0 : floats(c.ins[0])[i];
  }
};

}  // namespace

const KernelEntry blank = entry<Blank>();

}  // namespace spillway::cpu
