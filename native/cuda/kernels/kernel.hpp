// The table of the cuda device's kernels, by operator. A kernel is a specialisation of Kernel with `workspace` and `run<T>(exec, call)`; T
// is the stored type of activations. A kernel that cuDNN or cuBLAS should run says `library`. An operator without a kernel is in GAPS
// (table.hpp), or the build fails.
#pragma once
#include "cuda/kernels/boxes.hpp"
#include "cuda/kernels/sums.hpp"

namespace spillway::cuda {

template <OpKind kind>
struct Kernel {
  static constexpr bool missing = true;
};

/// `together`: how many calls it takes in one go.
struct OwnKernel {
  static constexpr bool missing = false, library = false;
  static constexpr uint32_t together = 1;
  static int64_t workspace(const KernelCall&) { return 0; }
};

struct LibraryKernel {
  static constexpr bool missing = false, library = true;
  static constexpr uint32_t together = 1;
};

/// A NaN passes through, as in PyTorch.
SPILLWAY_BOTH inline float rectify(float x, float slope) { return x <= 0 ? (slope == 0 ? 0.0f : slope * x) : x; }

inline float* floats(const View& v) { return static_cast<float*>(v.data); }
template <class T>
T* stored(const View& v) {
  return static_cast<T*>(v.data);
}

/// Checks the rules of the operator, in f32, bf16 and f16, and the limit of elements: places have 32 bits.
template <class K>
Status check_call(const KernelCall& c) {
  if (Status s = ops::check(c); !s.ok()) return s;
  if (ops::float_type(c) == DType::f64) return ops::refuse(c, "the cuda device computes in f32");
  if (!K::library && c.way != 0) return ops::refuse(c, "the cuda device has no kernel of this number for it");
  for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++)
    if (ops::elements(i < c.n_ins ? c.ins[i] : c.outs[i - c.n_ins]) >= MOST_ELEMENTS)
      return ops::refuse(c, "kernels of the cuda device take fewer than 2^31 elements: use smaller tiles");
  for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++) {
    const View& v = i < c.n_ins ? c.ins[i] : c.outs[i - c.n_ins];
    if (std::max(v.extent[2], v.extent[3]) > MOST_ROWS) return ops::refuse(c, "the cuda device takes fewer than 2^31 rows");
  }
  return {};
}

}  // namespace spillway::cuda
