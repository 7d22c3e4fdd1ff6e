// The stored form of activations: floats, or bf16, the upper half of a float. In: the result of a kernel. Out: the nearest
// storable value, ties to even. Invariant: a NaN stays one. Kernels take the stored type T as a parameter, and compute in
// floats and doubles for each T.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/both.hpp"

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

/// The factor of a product, rounded to the stored type.
template <class T>
SPILLWAY_BOTH inline float as_stored(float value) {
  T stored;
  stored = value;
  return stored;
}

}  // namespace spillway::cuda
