// Pixels outside of a mask, in kernels that leave them out. In: the mask of the call at hand, or none. Out: stretches of pixels of a row,
// all inside or all outside.
#pragma once
#include <cstring>

#include "cpu/stored.hpp"

namespace spillway::cpu {

/// Writes zeros past the caches: nothing reads pixels outside soon. end_stream() follows.
template <class T>
void clear_elements(T* to, int64_t count) {
  constexpr int64_t of_block = int64_t(sizeof(Block) / sizeof(T));
  int64_t at = std::min(count, int64_t(-reinterpret_cast<uintptr_t>(to) % sizeof(Block) / sizeof(T)));
  std::memset(to, 0, size_t(at) * sizeof(T));
  for (; at + of_block <= count; at += of_block) stream_block(reinterpret_cast<float*>(to + at), Block{});
  std::memset(to + at, 0, size_t(count - at) * sizeof(T));
}

/// Writes 0 to all channels of pixels [from, to) of a row; rows are counted through all images.
inline void clear_pixels(const View& v, int64_t row, int64_t from, int64_t to) {
  const bool is_dense = v.strides[3] == v.dims[1];
  with_element(v, [&](auto element) {
    const auto at = [&](int64_t w) { return pixel_of<decltype(element)>(v, row / v.dims[2], row % v.dims[2], w); };
    if (is_dense) return clear_elements(at(from), (to - from) * v.dims[1]);
    for (int64_t w = from; w < to; w++) clear_elements(at(w), v.dims[1]);
  });
}

/// Writes 0 to the pixels outside, unless they are 0 already.
inline void clear_outside(const View& v, const Outside* outside) {
  if (!outside || !outside->fills) return;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < v.dims[0] * v.dims[2]; row++) {
    OutsideRow is_outside(outside, row);
    for (int64_t to = 0; to < v.dims[3];) {
      const int64_t from = to;
      while (to < v.dims[3] && is_outside(to)) to++;
      if (from < to) clear_pixels(v, row, from, to);
      to += from == to;
    }
    end_stream();
  }
}

}  // namespace spillway::cpu
