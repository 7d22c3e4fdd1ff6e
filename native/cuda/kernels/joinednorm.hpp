// Batch norm of values that stand side by side along C, read where they lie. In: at most MOST_PARTS of them at a time, as many as
// a kernel's parameters hold. An item has channels side by side, 16 bytes where all allow that, and finds the part that has them once.
// Worked example: parts of 64, 32 and 32 channels: `from` is 0 64 96 128; channel 70 is channel 6 of the second.
#pragma once
#include "cuda/kernels/batchnorm_relu.hpp"
#include "ops/joinednorm.hpp"

namespace spillway::cuda {

constexpr uint32_t MOST_PARTS = 32;

/// Channels [first, first + channels) of all, and where they lie.
template <class T>
struct PartsBeside {
  uint32_t first, channels, count;
  uint32_t from[MOST_PARTS + 1];  // counted from `first`
  PixelsOf<T> parts[MOST_PARTS];

  /// The part that has `channel`, counted from `first`; its data begins there.
  SPILLWAY_BOTH PixelsOf<T> from_channel(uint32_t channel) const {
    uint32_t lo = 0, hi = count;
    while (hi - lo > 1) {
      const uint32_t middle = (lo + hi) / 2;
      if (from[middle] <= channel)
        lo = middle;
      else
        hi = middle;
    }
    PixelsOf<T> part = parts[lo];
    part.data += channel - from[lo];
    return part;
  }
};

/// Calls f(parts, aligned) for one group of parts after the other. `aligned`: each pixel's channels of all of them can be read 16
/// bytes at a time.
template <class T, class F>
void each_group(const ops::Parts& parts, F f) {
  PartsBeside<T> group{};
  bool wide = true;
  for (uint32_t i = 0; i < parts.count; i++) {
    group.parts[group.count] = PixelsOf<T>(parts[i]);
    group.from[group.count++] = group.channels;
    group.channels += uint32_t(parts[i].dims[1]);
    wide = wide && has_wide_pixels<T>(parts[i]);
    if (group.count < MOST_PARTS && i + 1 < parts.count) continue;
    group.from[group.count] = group.channels;
    f(static_cast<const PartsBeside<T>&>(group), wide);
    group.first += group.channels;
    group.channels = group.count = 0;
    wide = group.first % Wide<T>::LANES == 0;
  }
}

template <class T, class Exec, class Body>
void each_of_parts(Exec& exec, const View& whole, uint32_t channels, bool wide, const Body& body) {
  if (wide)
    each_by_channels<Wide<T>::LANES>(exec, ops::pixels(whole), channels, body);
  else
    each_by_channels<1>(exec, ops::pixels(whole), channels, body);
}

template <class T>
struct NormOfParts {
  PartsBeside<T> x;
  PixelsOf<T> y;
  RectifiedNorm norm;
  SPILLWAY_BOTH NormAt at(uint32_t channel) const { return norm.at(x.first + channel); }
  template <int LANES>
  SPILLWAY_BOTH PixelsOf<T> start(uint32_t channel) const {
    return x.from_channel(channel);
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void step(const Of& of, const PixelsOf<T>& part, uint32_t pixel, uint32_t channel) const {
    float values[LANES], result[LANES];
    fetch<LANES>(part.at(pixel), values);
    for (int lane = 0; lane < LANES; lane++) result[lane] = norm.of(of.at[lane], values + lane);
    put<LANES>(y.at(pixel) + x.first + channel, result);
  }
};

template <class T>
struct GradientTermOfParts {
  using Part = float;
  PartsBeside<T> x;
  PixelsOf<T> dy;
  RectifiedNorm norm;
  SPILLWAY_BOTH NormAt at(uint32_t channel) const { return norm.at(x.first + channel); }
  template <int LANES>
  SPILLWAY_BOTH PixelsOf<T> start(uint32_t channel) const {
    return x.from_channel(channel);
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void add(const Of& of, const PixelsOf<T>& part, uint32_t pixel, uint32_t channel, float (&sum)[LANES][2]) const {
    float values[LANES], gradients[LANES];
    fetch<LANES>(part.at(pixel), values);
    fetch<LANES>(dy.at(pixel) + x.first + channel, gradients);
    add_gradients<LANES>(norm, of, values, gradients, 0, sum);
  }
};

template <class T>
struct GradientOfParts {
  PartsBeside<T> x;
  PixelsOf<T> dy, onto, dx;
  RectifiedGradient gradient;
  bool added;
  SPILLWAY_BOTH RectifiedGradientAt at(uint32_t channel) const { return gradient.at(x.first + channel); }
  template <int LANES>
  SPILLWAY_BOTH PixelsOf<T> start(uint32_t channel) const {
    return x.from_channel(channel);
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void step(const Of& of, const PixelsOf<T>& part, uint32_t pixel, uint32_t channel) const {
    float values[LANES], gradients[LANES], before[LANES] = {}, result[LANES];
    fetch<LANES>(part.at(pixel), values);
    fetch<LANES>(dy.at(pixel) + x.first + channel, gradients);
    if (added) fetch<LANES>(onto.at(pixel) + x.first + channel, before);
    for (int lane = 0; lane < LANES; lane++) {
      const float both[] = {values[lane], gradients[lane]}, of_x = gradient.of(of.at[lane], both);
      result[lane] = added ? of_x + before[lane] : of_x;
    }
    put<LANES>(dx.at(pixel) + x.first + channel, result);
  }
};

template <>
struct Kernel<OpKind::join_stats> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels joined(c.outs[0]);  // the four rows of statistics stand for pixels
    each_group<float>(ops::parts_of(c, 0), [&](const PartsBeside<float>& x, bool) {
      exec.each(4 * x.channels, [=] SPILLWAY_BOTH(uint32_t i) {
        const uint32_t row = i / x.channels, ch = i % x.channels;
        joined.at(row)[x.first + ch] = x.from_channel(ch).at(row)[0];
      });
    });
  }
};

template <>
struct Kernel<OpKind::joined_norm> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = JoinedNormAttrs::read(c.attrs);
    const RectifiedNorm norm{norm_of(c, BatchMoments(c.ins[0], double(a.count), a.eps), 1), float(a.slope)};
    const View& y = c.outs[0];
    each_group<T>(ops::parts_of(c, 3), [&](const PartsBeside<T>& x, bool wide) {
      each_of_parts<T>(exec, y, x.channels, wide && has_wide_pixels<T>(y), NormOfParts<T>{x, PixelsOf<T>(y), norm});
    });
  }
};

template <>
struct Kernel<OpKind::joined_norm_bwd_reduce> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    int64_t most = 0;
    each_group<float>(ops::parts_of(c, 4),
                      [&](const PartsBeside<float>& x, bool) { most = std::max(most, sums_bytes<2>(ops::pixels(c.ins[0]), x.channels)); });
    return most;
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = JoinedNormBwdReduceAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[1], double(a.count), a.eps);
    const RectifiedNorm norm{norm_of(c, moments, 2), float(a.slope)};
    const View& dy = c.ins[0];
    float *const dgamma = floats(c.outs[0]), *const dbeta = floats(c.outs[1]);
    each_group<T>(ops::parts_of(c, 4), [&](const PartsBeside<T>& x, bool wide) {
      const uint32_t first = x.first;
      const auto finish = [=] SPILLWAY_BOTH(uint32_t ch, const double* sum) {
        dgamma[first + ch] = float(sum[0] * moments.of(first + ch).rstd);
        dbeta[first + ch] = float(sum[1]);
      };
      sum_channels<2, T>(exec, ops::pixels(dy), x.channels, wide && has_wide_pixels<T>(dy), c.workspace,
                         GradientTermOfParts<T>{x, PixelsOf<T>(dy), norm}, finish);
    });
  }
};

template <>
struct Kernel<OpKind::joined_norm_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = JoinedNormBwdDataAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[1], double(a.count), a.eps);
    const RectifiedGradient gradient = rectified_gradient(c, moments, 2, float(a.slope));
    const View &dy = c.ins[0], &onto = c.ins[6], &dx = c.outs[0];  // `onto` is a part where nothing is added to
    const bool added = a.onto != 0, wide = has_wide_pixels<T>(dy) && has_wide_pixels<T>(dx) && (!added || has_wide_pixels<T>(onto));
    each_group<T>(ops::parts_of(c, uint32_t(6 + a.onto)), [&](const PartsBeside<T>& x, bool all_wide) {
      each_of_parts<T>(exec, dx, x.channels, wide && all_wide,
                       GradientOfParts<T>{x, PixelsOf<T>(dy), PixelsOf<T>(onto), PixelsOf<T>(dx), gradient, added});
    });
  }
};

}  // namespace spillway::cuda
