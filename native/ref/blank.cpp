// A parameter with zeros in place of some values.
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Blank {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BlankAttrs::read(c.attrs);
    for (int64_t i = 0; i < c.ins[0].dims[0]; i++)
      static_cast<T*>(c.outs[0].data)[i] = i >= a.from && i < a.to ? T(0) : static_cast<T*>(c.ins[0].data)[i];
  }
};

}  // namespace

const KernelEntry blank = entry<Blank>();

}  // namespace spillway::ref
