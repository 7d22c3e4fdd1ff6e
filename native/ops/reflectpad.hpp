// Legality and geometry of reflection padding and its gradient.
#pragma once
#include <algorithm>

#include "ops/check.hpp"

namespace spillway::ops {

/// One axis: `pad` rows before an image of `extent` rows and `after` behind it.
struct Mirror {
  int64_t pad = 0, after = 0, extent = 1;

  constexpr bool legal() const { return pad >= 0 && pad < extent && after >= 0 && after < extent; }
  constexpr int64_t padded() const { return pad + extent + after; }
  /// The row of the image that stands at this row of the padded one.
  constexpr int64_t source(int64_t out) const {
    const int64_t row = out < pad ? pad - out : out - pad;
    return row < extent ? row : 2 * (extent - 1) - row;
  }
  /// Calls f(out) for the rows of the padded image where this row of the image stands, in order: itself and its mirrors.
  template <class F>
  void each_copy(int64_t row, F f) const {
    if (row >= 1 && row <= pad) f(pad - row);
    f(pad + row);
    if (row <= extent - 2 && row >= extent - 1 - after) f(pad + 2 * (extent - 1) - row);
  }
};

struct Mirrors {
  Mirror h, w;
};
/// `image` is the side without padding.
inline Mirrors reflect_geometry(const ReflectPadAttrs& a, const View& image) {
  return {{a.pad_top, a.pad_bottom, image.extent[2]}, {a.pad_left, a.pad_right, image.extent[3]}};
}

/// Returns true if the image view holds the first and last rows of the padded view, turning points included.
inline bool holds_mirrored(const Mirror& m, const View& image, const View& padded, int dim) {
  const int64_t lo = lower(padded, dim), hi = upper(padded, dim);
  if (!m.legal() || hi > m.padded()) return false;
  const int64_t ends[2] = {m.source(lo), m.source(hi - 1)};
  const int64_t last = m.pad + m.extent - 1;
  const int64_t least = lo <= m.pad && m.pad < hi ? 0 : std::min(ends[0], ends[1]);
  const int64_t most = lo <= last && last < hi ? m.extent - 1 : std::max(ends[0], ends[1]);
  return lower(image, dim) <= least && most < upper(image, dim);
}

inline Status check_reflect_sizes(const KernelCall& c, const View& x, const View& y) {
  if (!is_activation(x) || !is_activation(y)) return refuse(c, "x and y must be activations");
  if (x.dims[0] != y.dims[0] || x.origin[0] != y.origin[0] || x.dims[1] != y.dims[1] || x.origin[1] != y.origin[1])
    return refuse(c, "x and y must hold the same images and channels");
  const Mirrors g = reflect_geometry(ReflectPadAttrs::read(c.attrs), x);
  if (!holds_mirrored(g.h, x, y, 2) || !holds_mirrored(g.w, x, y, 3)) return refuse(c, "x must hold every pixel that y copies");
  return {};
}

inline Status check_reflect_pad(const KernelCall& c) { return check_reflect_sizes(c, c.ins[0], c.outs[0]); }

inline Status check_reflect_pad_bwd(const KernelCall& c) { return check_reflect_sizes(c, c.outs[0], c.ins[0]); }

}  // namespace spillway::ops
