// Convolution calls for Winograd's algorithm. In: a call that ops/conv2d.hpp has checked. Out: true if the
// algorithm supports it, its scratch, its run. Invariant: any padding and any slice of an image is legal, because
// missing pixels of x count as zero.
#pragma once
#include "cpu/channel_sums.hpp"
#include "cpu/winograd.hpp"
#include "ops/conv2d.hpp"

namespace spillway::cpu::conv2d_winograd {

inline bool applies(const ops::WindowAxis& a) { return a.kernel == 3 && a.stride == 1; }
inline bool applies(const ops::Conv2d& g) { return g.groups == 1 && applies(g.window.h) && applies(g.window.w); }

inline winograd::Plane plane_of(const View& v) { return {v.dims[2], v.dims[3], v.dims[1]}; }

/// Windows as far as they have pixels.
inline winograd::Sight sight_of(const ops::WindowAxis& a) { return {a.start(a.out_lo) - a.in_lo, a.dilation}; }
/// Seen from the other side, weights turned around.
inline winograd::Sight turned(winograd::Sight s) { return {-s.shift - 2 * s.step, s.step}; }

/// From x to y.
inline winograd::Geometry towards_y(const ops::Conv2d& g, const View& x, const View& y) {
  return {g.batch, plane_of(x), plane_of(y), sight_of(g.window.h), sight_of(g.window.w)};
}
/// The data gradient.
inline winograd::Geometry towards_x(const ops::Conv2d& g, const View& x, const View& y) {
  return {g.batch, plane_of(y), plane_of(x), turned(sight_of(g.window.h)), turned(sight_of(g.window.w))};
}

/// Both directions between activations: from one as floats or bf16, to one that is stored alike.
inline void convolve(const winograd::Geometry& g, const KernelCall& c, winograd::Weights order, const winograd::Finish& finish) {
  with_element(c.ins[0], [&](auto element) {
    using T = decltype(element);
    const double skipped = winograd::convolve(g, use_threads(), seeks_zeros(c), outside_of(c), order, static_cast<const T*>(c.ins[0].data),
                                              floats(c.ins[1]), finish, static_cast<T*>(c.outs[0].data), c.workspace);
    if (seeks_zeros(c)) *c.step->skipped = skipped;
  });
}

inline void forward(const winograd::Geometry& g, const KernelCall& c, winograd::Finish finish = {}) {
  if (c.n_ins > 2) finish.bias = floats(c.ins[2]);
  convolve(g, c, winograd::Weights::forward, finish);
}

inline void backward_data(const winograd::Geometry& g, const KernelCall& c) { convolve(g, c, winograd::Weights::turned, {}); }

inline int64_t backward_weights_bytes(const winograd::Geometry& g, const KernelCall& c) {
  return std::max(winograd::weight_gradient_bytes(g, use_threads()), c.n_outs > 1 ? channel_sums_bytes<1>(c.ins[1]) : 0);
}
inline void backward_weights(const winograd::Geometry& g, const KernelCall& c) {
  with_element(c.ins[0], [&](auto element) {
    using T = decltype(element);
    const double skipped = winograd::weight_gradient(g, use_threads(), seeks_zeros(c), outside_of(c), static_cast<const T*>(c.ins[0].data),
                                                     static_cast<const T*>(c.ins[1].data), floats(c.outs[0]), c.workspace);
    if (seeks_zeros(c)) *c.step->skipped = skipped;
  });
  if (c.n_outs > 1) bias_gradient(c.ins[1], c.workspace, c.outs[1]);
}

}  // namespace spillway::cpu::conv2d_winograd
