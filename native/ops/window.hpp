// One spatial axis of a window operator (convolution, pooling) on a tile: which input rows an output range reads, and
// how many rows of padding stand before and after them. In: the boxes of both sides. Out: `core`, the rows that exist.
// Worked example: rows [3, 7) of the output of a 3-wide window, stride 1, padding 1, read rows [2, 8) of the input.
#pragma once
#include <algorithm>

#include "ops/check.hpp"

namespace spillway::ops {

struct WindowAxis {
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;
  int64_t in_lo = 0, in_size = 0, in_extent = 0;
  int64_t out_lo = 0, out_size = 0;

  constexpr int64_t reach() const { return dilation * (kernel - 1) + 1; }
  constexpr int64_t in_hi() const { return in_lo + in_size; }
  /// First row that the window of this output row covers; may be negative.
  constexpr int64_t start(int64_t out) const { return out * stride - pad; }
  constexpr int64_t core_lo() const { return std::max<int64_t>(0, start(out_lo)); }
  constexpr int64_t core_hi() const { return std::min(in_extent, start(out_lo + out_size - 1) + reach()); }
  constexpr int64_t core_size() const { return core_hi() - core_lo(); }
  constexpr int64_t pad_before() const { return core_lo() - start(out_lo); }
  constexpr int64_t pad_after() const { return start(out_lo + out_size - 1) + reach() - core_hi(); }
  /// Returns true if the input view holds the core and nothing else, apart from rows below a stride that no window
  /// reaches.
  constexpr bool exact() const { return in_lo == core_lo() && in_hi() - core_hi() < stride; }

  constexpr bool legal() const {
    constexpr int64_t most = int64_t(1) << 30;  // libraries count rows in 32 bits
    for (const int64_t n : {kernel, stride, dilation})
      if (n < 1 || n > most) return false;
    if (pad < 0 || pad > most || (out_size - 1) * stride + reach() > most) return false;
    return core_size() > 0 && in_lo <= core_lo() && core_hi() <= in_hi();
  }
};

/// Axis `dim` (2 rows, 3 columns) between the input side and the output side of a window operator.
inline WindowAxis window_axis(const View& in, const View& out, int dim, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation = 1) {
  return {kernel, stride, pad, dilation, in.origin[dim], in.dims[dim], in.extent[dim], out.origin[dim], out.dims[dim]};
}

/// Both axes.
struct Window {
  WindowAxis h, w;
  constexpr bool legal() const { return h.legal() && w.legal(); }
  constexpr bool exact() const { return h.exact() && w.exact(); }
};

}  // namespace spillway::ops
