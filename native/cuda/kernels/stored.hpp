// The stored form of activations: floats, bf16 (the upper half of a float), or f16 (binary16). In: the result of a kernel. Out: the
// nearest storable value, ties to even. Invariant: a NaN stays one; too large a value becomes infinite. Kernels take the stored type T as a
// parameter, and compute in floats and doubles for each T.
#pragma once
#include <cstdint>
#include <cstring>

#include "gen/wire.h"
#include "ops/both.hpp"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#else
#include "core/half.hpp"
#endif

namespace spillway::cuda {

struct StoredBf16 {
  uint16_t bits;

  SPILLWAY_BOTH operator float() const {
    const uint32_t wide = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
  SPILLWAY_BOTH StoredBf16& operator=(float value) {
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    bits = value != value ? uint16_t(wide >> 16 | 0x40) : uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    return *this;
  }
};
static_assert(sizeof(StoredBf16) == 2);

/// A GPU converts in one instruction.
struct StoredF16 {
  uint16_t bits;

  SPILLWAY_BOTH operator float() const {
#ifdef __CUDACC__
    return __half2float(__half(__half_raw{bits}));
#else
    return F16::widened(bits);
#endif
  }
  SPILLWAY_BOTH StoredF16& operator=(float value) {
#ifdef __CUDACC__
    bits = __half_raw(__float2half_rn(value)).x;
#else
    bits = F16::rounded(value);
#endif
    return *this;
  }
};
static_assert(sizeof(StoredF16) == 2);

/// Calls f with a value of the type that stands for `stored`.
template <class F>
void with_stored(DType stored, F f) {
  if (stored == DType::bf16)
    f(StoredBf16{});
  else if (stored == DType::f16)
    f(StoredF16{});
  else
    f(0.0f);
}

/// The factor of a product, rounded to the stored type.
template <class T>
SPILLWAY_BOTH inline float as_stored(float value) {
  T stored;
  stored = value;
  return stored;
}

}  // namespace spillway::cuda
