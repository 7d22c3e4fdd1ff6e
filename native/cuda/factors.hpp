// The factors of a library's product: floats, floats rounded to TF32, bf16, or f16; sums are always floats. In: a call, and the
// precision of its session. Out: the factors, their bytes, and the alignment of addresses.
#pragma once
#include "ops/check.hpp"
#include "runtime/device.hpp"

namespace spillway::cuda {

enum class Factors { full, tf32, bf16, f16 };

/// Returns true if activations are stored in 16 bits.
constexpr bool is_half(Factors f) { return f == Factors::bf16 || f == Factors::f16; }

/// How activations are stored is the call's to say; the session's precision is that of products of floats.
inline Factors factors_of(const KernelCall& c, Precision p) {
  if (const DType stored = ops::stored_type(c); ops::is_half(stored)) return stored == DType::bf16 ? Factors::bf16 : Factors::f16;
  return p == Precision::tf32 ? Factors::tf32 : Factors::full;
}

inline DType stored_type(Factors f) { return f == Factors::bf16 ? DType::bf16 : f == Factors::f16 ? DType::f16 : DType::f32; }

/// A slice begins at some row of `elements`: the most, up to 16 bytes, that its address is surely a multiple of.
inline int64_t row_alignment(DType t, int64_t elements) {
  const auto bytes = int64_t(dtype_bytes(t));
  return elements * bytes % 16 == 0 ? 16 : bytes;
}

}  // namespace spillway::cuda
