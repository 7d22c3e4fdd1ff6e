// Legality and geometry of max and average pooling and their gradients, as PyTorch counts windows and divisors.
#pragma once
#include "ops/window.hpp"

namespace spillway::ops {

template <class Attrs>
Window pool_window(const Attrs& a, const View& x, const View& y) {
  return {window_axis(x, y, 2, a.kernel_h, a.stride_h, a.pad_top), window_axis(x, y, 3, a.kernel_w, a.stride_w, a.pad_left)};
}

/// The image rows that the window of this output row covers, clipped to the image; empty when hi <= lo.
struct Span {
  int64_t lo, hi;
  constexpr int64_t size() const { return std::max<int64_t>(0, hi - lo); }
};
constexpr Span pool_span(const WindowAxis& axis, int64_t out) {
  const int64_t start = axis.start(out);
  return {std::max<int64_t>(0, start), std::min(axis.in_extent, start + axis.kernel)};
}

/// Pixels that an average divides by along one axis; a ceil window that runs over the far padding counts less.
constexpr int64_t pool_divisor(const WindowAxis& axis, int64_t out, int64_t pad_after, bool count_padding) {
  if (!count_padding) return std::max<int64_t>(1, pool_span(axis, out).size());
  const int64_t start = axis.start(out);
  return std::max<int64_t>(1, std::min(start + axis.kernel, axis.in_extent + pad_after) - start);
}

inline Status check_pool_sizes(const KernelCall& c, const View& x, const View& y, const Window& window) {
  if (!is_activation(x) || !is_activation(y)) return refuse(c, "x and y must be activations");
  if (x.dims[0] != y.dims[0] || x.origin[0] != y.origin[0] || x.dims[1] != y.dims[1] || x.origin[1] != y.origin[1])
    return refuse(c, "x and y must hold the same images and channels");
  if (!window.legal()) return refuse(c, "x must hold every pixel that the windows of y cover");
  return {};
}

inline Status check_max_pool(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  return check_pool_sizes(c, x, y, pool_window(MaxPoolAttrs::read(c.attrs), x, y));
}

inline Status check_max_pool_bwd(const KernelCall& c) {
  const View &x = c.ins[0], &dy = c.ins[1], &dx = c.outs[0];
  if (!same_box(x, dx)) return refuse(c, "dx must hold the box of x");
  return check_pool_sizes(c, x, dy, pool_window(MaxPoolBwdAttrs::read(c.attrs), x, dy));
}

/// Places of maxima, a byte each, four channels to a word.
inline int64_t place_words(int64_t channels) { return (channels + 3) / 4; }
/// Returns true if `places` are those of y's pixels, and a byte can count the window.
inline Status check_places(const KernelCall& c, const View& places, const View& y, const Window& window) {
  if (!is_activation(places) || !same_pixels(places, y) || places.origin[1] != 0 || places.dims[1] != place_words(y.dims[1]))
    return refuse(c, "places must hold the pixels of y, and a word for each four channels");
  return window.h.kernel * window.w.kernel <= 256 ? Status{} : refuse(c, "a window must have at most 256 places");
}

inline Status check_max_pool_places(const KernelCall& c) {
  const View &x = c.ins[0], &places = c.outs[0];
  if (!is_activation(x) || !is_activation(places)) return refuse(c, "x and the places must be activations");
  const Window window = pool_window(MaxPoolPlacesAttrs::read(c.attrs), x, places);
  View y = places;  // as max_pool would write it
  y.dims[1] = x.dims[1], y.origin[1] = x.origin[1], y.extent[1] = x.extent[1];
  if (Status s = check_pool_sizes(c, x, y, window); !s.ok()) return s;
  return check_places(c, places, y, window);
}

inline Status check_max_pool_places_bwd(const KernelCall& c) {
  const View &places = c.ins[0], &dy = c.ins[1], &dx = c.outs[0];
  const Window window = pool_window(MaxPoolPlacesBwdAttrs::read(c.attrs), dx, dy);
  if (Status s = check_pool_sizes(c, dx, dy, window); !s.ok()) return s;
  return check_places(c, places, dy, window);
}

inline Status check_avg_pool(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  return check_pool_sizes(c, x, y, pool_window(AvgPoolAttrs::read(c.attrs), x, y));
}

inline Status check_avg_pool_bwd(const KernelCall& c) {
  const View &dy = c.ins[0], &dx = c.outs[0];
  const AvgPoolBwdAttrs a = AvgPoolBwdAttrs::read(c.attrs);
  return check_pool_sizes(c, dx, dy, pool_window(a, dx, dy));
}

inline Status check_reduced(const KernelCall& c, const View& x, const View& y) {
  if (!is_activation(x) || !is_activation(y)) return refuse(c, "x and y must be activations");
  if (x.dims[0] != y.dims[0] || x.dims[1] != y.dims[1] || y.dims[2] != 1 || y.dims[3] != 1)
    return refuse(c, "y must be [B,C,1,1] with the images and channels of x");
  return {};
}

inline Status check_global_avg_pool_bwd(const KernelCall& c) { return check_reduced(c, c.outs[0], c.ins[0]); }

}  // namespace spillway::ops
