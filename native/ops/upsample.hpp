// Legality and geometry of resampling and its gradient, as PyTorch's interpolate with the ratio of the sizes. All places
// are whole numbers over a common denominator, so that every tile and every device finds the same pixels and weights.
#pragma once
#include <algorithm>

#include "ops/check.hpp"

namespace spillway::ops {

/// The pixels that an output pixel is made of: the two between which it lies, equal when it lies on one, and the weight of the second.
/// If they are alike, all pixels from the first to the second.
struct Between {
  int64_t first, second;
  double weight;
  bool alike = false;
  /// The weight of a pixel from the first to the second.
  constexpr double share(int64_t pixel) const {
    if (alike) return 1.0 / double(second - first + 1);
    return first == second ? 1.0 : pixel == first ? 1 - weight : weight;
  }
};

/// One axis: `from` pixels of the whole input to `to` of the whole output.
struct Resampling {
  enum Mode : int64_t { nearest = 0, areas = 1, points = 2, means = 3 };
  int64_t mode = nearest, from = 1, to = 1;

  constexpr bool legal() const {
    constexpr int64_t most = int64_t(1) << 30;
    return mode >= nearest && mode <= means && from >= 1 && from <= most && to >= 1 && to <= most;
  }
  constexpr Between at(int64_t out) const {
    if (mode == nearest) return {out * from / to, out * from / to, 0};
    if (mode == means) return {out * from / to, ((out + 1) * from - 1) / to, 0, true};
    const int64_t denominator = mode == areas ? 2 * to : std::max<int64_t>(1, to - 1);
    const int64_t place = mode == areas ? std::max<int64_t>(0, (2 * out + 1) * from - to) : to > 1 ? out * (from - 1) : 0;
    const int64_t first = place / denominator, rest = place % denominator;
    if (rest == 0 || first + 1 >= from) return {std::min(first, from - 1), std::min(first, from - 1), 0};
    return {first, first + 1, double(rest) / double(denominator)};
  }
};

struct Resamplings {
  Resampling h, w;
};
inline Resamplings upsample_geometry(const UpsampleAttrs& a) { return {{a.mode, a.in_h, a.out_h}, {a.mode, a.in_w, a.out_w}}; }

/// Returns true if the input view holds the sources of the output view.
inline bool holds_pixels(const Resampling& r, const View& in, const View& out, int dim) {
  return r.legal() && upper(out, dim) <= r.to && lower(in, dim) <= r.at(lower(out, dim)).first &&
         r.at(upper(out, dim) - 1).second < upper(in, dim);
}

inline Status check_upsample_sizes(const KernelCall& c, const View& x, const View& y) {
  if (!is_activation(x) || !is_activation(y)) return refuse(c, "x and y must be activations");
  if (x.dims[0] != y.dims[0] || x.origin[0] != y.origin[0] || x.dims[1] != y.dims[1] || x.origin[1] != y.origin[1])
    return refuse(c, "x and y must hold the same images and channels");
  const Resamplings g = upsample_geometry(UpsampleAttrs::read(c.attrs));
  if (!holds_pixels(g.h, x, y, 2) || !holds_pixels(g.w, x, y, 3)) return refuse(c, "x must hold every pixel that y reads");
  return {};
}

inline Status check_upsample(const KernelCall& c) { return check_upsample_sizes(c, c.ins[0], c.outs[0]); }

inline Status check_upsample_bwd(const KernelCall& c) { return check_upsample_sizes(c, c.outs[0], c.ins[0]); }

}  // namespace spillway::ops
