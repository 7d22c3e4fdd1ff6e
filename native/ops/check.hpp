// The rules of a legal call, shared by all devices. In: a call's views and attributes; only their memory bounds
// are trusted (the tape reader checks those). Out: Status in words that name the operator and the shapes.
// Invariant: after a passed check, a kernel reads and writes only inside its views.
#pragma once
#include "core/kernel.hpp"
#include "ops/table.hpp"

namespace spillway::ops {

inline int64_t lower(const View& v, int dim) { return v.origin[dim]; }
inline int64_t upper(const View& v, int dim) { return v.origin[dim] + v.dims[dim]; }
inline int64_t elements(const View& v) { return v.dims[0] * v.dims[1] * v.dims[2] * v.dims[3]; }
inline int64_t pixels(const View& v) { return v.dims[0] * v.dims[2] * v.dims[3]; }

inline bool same_dims(const View& a, const View& b) {
  for (int d = 0; d < 4; d++)
    if (a.dims[d] != b.dims[d]) return false;
  return true;
}

/// Returns true for the same part of the whole value, for any strides.
inline bool same_box(const View& a, const View& b) {
  for (int d = 0; d < 4; d++)
    if (a.dims[d] != b.dims[d] || a.origin[d] != b.origin[d]) return false;
  return true;
}

/// Like same_box, where the channels may differ.
inline bool same_pixels(const View& a, const View& b) {
  for (const int d : {0, 2, 3})
    if (a.dims[d] != b.dims[d] || a.origin[d] != b.origin[d]) return false;
  return true;
}

inline bool strides_follow(const View& v, const int (&outer_to_inner)[4]) {
  int64_t stride = 1;
  for (int i = 3; i >= 0; i--) {
    const int d = outer_to_inner[i];
    if (v.dims[d] != 1 && v.strides[d] != stride) return false;
    stride *= v.dims[d];
  }
  return true;
}

/// Natural row-major order without gaps: parameters and statistics.
inline bool dense_plain(const View& v) { return strides_follow(v, {0, 1, 2, 3}); }
/// Channels-last without gaps: activations that were not sliced.
inline bool dense_channels_last(const View& v) { return strides_follow(v, {0, 2, 3, 1}); }

/// An activation: rank 4, channels innermost, inside its whole value.
inline bool is_activation(const View& v) {
  if (v.rank != 4 || (v.dims[1] != 1 && v.strides[1] != 1)) return false;
  for (int d = 0; d < 4; d++)
    if (v.dims[d] < 1 || v.origin[d] < 0 || v.strides[d] < 0 || upper(v, d) > v.extent[d]) return false;
  return true;
}

/// Returns true for all channels and pixels of some images, without gaps.
inline bool is_of_whole_images(const View& v) {
  for (const int d : {1, 2, 3})
    if (v.origin[d] != 0 || v.dims[d] != v.extent[d]) return false;
  return is_activation(v) && dense_channels_last(v);
}

/// A parameter or statistic: dense, whole, at least one element.
inline bool is_whole(const View& v) {
  for (const int64_t lo : v.origin)
    if (lo != 0) return false;
  return v.rank >= 1 && elements(v) >= 1 && dense_plain(v);
}
/// A weight laid out: channels innermost.
inline bool is_laid(const View& v) {
  for (const int64_t lo : v.origin)
    if (lo != 0) return false;
  return v.rank == 4 && elements(v) >= 1 && dense_channels_last(v);
}
/// Returns true for a legal weight of convolutions: floats in their natural order, or laid out, in the stored
/// type of activations.
inline bool is_weight(const View& w, const View& activations) {
  return w.rank == 4 && ((!is_half(w.dtype) && is_whole(w)) || (w.dtype == activations.dtype && is_laid(w)));
}
/// Returns true if a weight is laid out, in a type for which this matters.
inline bool comes_laid(const View& w) { return is_half(w.dtype) || !dense_plain(w); }
inline bool is_vector(const View& v, int64_t n) { return is_whole(v) && v.dims[0] == n && elements(v) == n; }
inline bool is_matrix(const View& v, int64_t rows, int64_t columns) {
  return is_whole(v) && v.dims[0] == rows && v.dims[1] == columns && elements(v) == rows * columns;
}

/// The float type of a call's parameters, statistics and sums, and of its activations unless they are 16-bit floats.
DType float_type(const KernelCall& c);
/// The 16-bit type of its activations, or else their float type.
DType stored_type(const KernelCall& c);
inline bool is_half(const KernelCall& c) { return is_half(stored_type(c)); }
inline bool is_bf16(const KernelCall& c) { return stored_type(c) == DType::bf16; }
/// The input that multiplies activations: a call in a 16-bit type rounds it to that type. Past the last: none.
uint32_t weight_of(const KernelCall& c);
/// Operand and attribute counts, element types and finite, integral attributes as the op table says.
Status check_operands(const KernelCall& c);
/// The op table's rules for the layout of operands relative to the iterated one. Operands are checked
/// already.
Status check_by_table(const KernelCall& c);
/// The whole check of every device: the table's rules, and the operator's own.
Status check(const KernelCall& c);
/// A refusal that names the operator and its shapes.
Status refuse(const KernelCall& c, const char* words);

}  // namespace spillway::ops
