// Layer norm over the channels of each pixel, and its gradients. Some items of a block have a pixel together: side by side along its
// channels, 16 bytes each where the operands allow that.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

/// The moments that normalise the channels of a pixel.
struct PixelMoments {
  double mean, rstd;
};

/// Two sums over the channels of a pixel at a time, in the order of items: phases of a block that has BLOCK_ITEMS / across pixels.
template <class T, int LANES>
struct PixelSums {
  static constexpr uint32_t MOST_ACROSS = 32;  // a warp
  struct Shared {
    double at[2][BLOCK_ITEMS];
    PixelMoments moments[BLOCK_ITEMS];
  };
  PixelsOf<T> x;
  uint32_t pixels, across;
  double eps;

  PixelSums(const View& v, double eps_) : x(v), pixels(uint32_t(ops::pixels(v))), across(1), eps(eps_) {
    while (across < MOST_ACROSS && across * LANES < x.channels) across *= 2;
  }
  int64_t blocks() const { return (int64_t(pixels) + rows() - 1) / rows(); }
  SPILLWAY_BOTH uint32_t rows() const { return BLOCK_ITEMS / across; }
  SPILLWAY_BOTH uint32_t pixel(uint32_t block, uint32_t item) const { return block * rows() + item / across; }

  /// f(channel) for the first of each LANES channels that the item has.
  template <class F>
  SPILLWAY_BOTH void each_channels(uint32_t item, F f) const {
    for (uint32_t ch = item % across * LANES; ch < x.channels; ch += across * LANES) f(ch);
  }
  /// Deviations from the pixel's first channel: squares of a mean far from zero would cancel.
  SPILLWAY_BOTH void gather_moments(Shared& shared, uint32_t at, uint32_t item) const {
    const T* const from = x.at(at);
    const double first = double(float(from[0]));
    double sum = 0, squares = 0;
    each_channels(item, [&](uint32_t ch) {
      float values[LANES];
      fetch<LANES>(from + ch, values);
      for (int lane = 0; lane < LANES; lane++) {
        const double deviation = double(values[lane]) - first;
        sum += deviation;
        squares += deviation * deviation;
      }
    });
    shared.at[0][item] = sum;
    shared.at[1][item] = squares;
  }
  /// Returns true for the item that adds up; then both sums are those of all items.
  SPILLWAY_BOTH bool merged(const Shared& shared, uint32_t item, double (&sum)[2]) const {
    if (item % across != 0) return false;
    for (int s = 0; s < 2; s++) {
      sum[s] = 0;
      for (uint32_t i = item; i < item + across; i++) sum[s] += shared.at[s][i];
    }
    return true;
  }
  SPILLWAY_BOTH PixelMoments moments_of(uint32_t at, const double (&sum)[2]) const {
    const double squares = sum[1] - sum[0] * sum[0] / x.channels;
    return {double(float(x.at(at)[0])) + sum[0] / x.channels, 1.0 / sqrt((squares > 0 ? squares : 0) / x.channels + eps)};
  }
  SPILLWAY_BOTH void merge_moments(Shared& shared, uint32_t at, uint32_t item) const {
    double sum[2];
    if (merged(shared, item, sum)) shared.moments[item / across] = moments_of(at, sum);
  }
};

template <class T, int LANES>
struct LayerNorm {
  static constexpr int PHASES = 3;
  using Shared = typename PixelSums<T, LANES>::Shared;
  PixelSums<T, LANES> of;
  PixelsOf<T> y;
  const float *gamma, *beta;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t pixel = of.pixel(block, item);
    if (pixel >= of.pixels) return;
    if constexpr (phase == 0) of.gather_moments(shared, pixel, item);
    if constexpr (phase == 1) of.merge_moments(shared, pixel, item);
    if constexpr (phase == 2) apply(shared.moments[item / of.across], pixel, item);
  }

 private:
  SPILLWAY_BOTH void apply(const PixelMoments& m, uint32_t pixel, uint32_t item) const {
    const T* const from = of.x.at(pixel);
    T* const to = y.at(pixel);
    const float mean = float(m.mean), rstd = float(m.rstd);
    of.each_channels(item, [&](uint32_t ch) {
      float values[LANES];
      fetch<LANES>(from + ch, values);
      for (int lane = 0; lane < LANES; lane++)
        values[lane] = (values[lane] - mean) * rstd * gamma[ch + uint32_t(lane)] + beta[ch + uint32_t(lane)];
      put<LANES>(to + ch, values);
    });
  }
};

/// dx = rstd·(gamma·dy - (Σ gamma·dy + normal·Σ gamma·dy·normal)/C), where normal = (x - mean)·rstd.
template <class T, int LANES>
struct LayerNormGradient {
  static constexpr int PHASES = 5;
  using Shared = typename PixelSums<T, LANES>::Shared;
  PixelSums<T, LANES> of;
  PixelsOf<T> dy, dx;
  const float* gamma;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t pixel = of.pixel(block, item);
    if (pixel >= of.pixels) return;
    const uint32_t row = item / of.across;
    if constexpr (phase == 0) of.gather_moments(shared, pixel, item);
    if constexpr (phase == 1) of.merge_moments(shared, pixel, item);
    if constexpr (phase == 2) gather_gradients(shared, pixel, item);
    if constexpr (phase == 3) {
      double sum[2];
      if (!of.merged(shared, item, sum)) return;
      shared.at[0][item] = sum[0];
      shared.at[1][item] = sum[1];
    }
    if constexpr (phase == 4) apply(shared.moments[row], shared.at[0][row * of.across], shared.at[1][row * of.across], pixel, item);
  }

 private:
  SPILLWAY_BOTH void gather_gradients(Shared& shared, uint32_t pixel, uint32_t item) const {
    const PixelMoments m = shared.moments[item / of.across];
    const T *const value = of.x.at(pixel), *const gradient = dy.at(pixel);
    double plain = 0, products = 0;
    of.each_channels(item, [&](uint32_t ch) {
      float values[LANES], gradients[LANES];
      fetch<LANES>(value + ch, values);
      fetch<LANES>(gradient + ch, gradients);
      for (int lane = 0; lane < LANES; lane++) {
        const double g = double(gamma[ch + uint32_t(lane)]) * double(gradients[lane]);
        plain += g;
        products += g * (double(values[lane]) - m.mean);
      }
    });
    shared.at[0][item] = plain;
    shared.at[1][item] = products * m.rstd;
  }
  SPILLWAY_BOTH void apply(const PixelMoments& m, double plain, double products, uint32_t pixel, uint32_t item) const {
    const T *const value = of.x.at(pixel), *const gradient = dy.at(pixel);
    T* const to = dx.at(pixel);
    const double offset = plain / of.x.channels, tilt = products / of.x.channels;  // of few channels next to nothing is left: doubles
    of.each_channels(item, [&](uint32_t ch) {
      float values[LANES], gradients[LANES];
      fetch<LANES>(value + ch, values);
      fetch<LANES>(gradient + ch, gradients);
      for (int lane = 0; lane < LANES; lane++) {
        const double g = double(gamma[ch + uint32_t(lane)]) * double(gradients[lane]), normal = (double(values[lane]) - m.mean) * m.rstd;
        values[lane] = float(m.rstd * (g - offset - normal * tilt));
      }
      put<LANES>(to + ch, values);
    });
  }
};

/// The moments of all pixels, one after the other.
template <class T, int LANES>
struct PutMoments {
  static constexpr int PHASES = 2;
  using Shared = typename PixelSums<T, LANES>::Shared;
  PixelSums<T, LANES> of;
  PixelMoments* into;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t pixel = of.pixel(block, item);
    if (pixel >= of.pixels) return;
    double sum[2];
    if constexpr (phase == 0)
      of.gather_moments(shared, pixel, item);
    else if (of.merged(shared, item, sum))
      into[pixel] = of.moments_of(pixel, sum);
  }
};

template <class T>
struct LayerWeightsTerm {
  PixelsOf<T> x, dy;
  const PixelMoments* moments;
  struct Nothing {};
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES>
  SPILLWAY_BOTH void add(Nothing, uint32_t pixel, uint32_t ch, double (&sum)[LANES][2]) const {
    const PixelMoments m = moments[pixel];
    float values[LANES], gradients[LANES];
    fetch<LANES>(x.at(pixel) + ch, values);
    fetch<LANES>(dy.at(pixel) + ch, gradients);
    for (int lane = 0; lane < LANES; lane++) {
      sum[lane][0] += double(gradients[lane]) * (double(values[lane]) - m.mean) * m.rstd;
      sum[lane][1] += double(gradients[lane]);
    }
  }
};

template <>
struct Kernel<OpKind::layer_norm> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    if (has_wide_pixels<T>(c.ins[0]) && has_wide_pixels<T>(c.outs[0]))
      in_steps<T, Wide<T>::LANES>(exec, c);
    else
      in_steps<T, 1>(exec, c);
  }
  template <class T, int LANES, class Exec>
  static void in_steps(Exec& exec, const KernelCall& c) {
    const PixelSums<T, LANES> sums(c.ins[0], LayerNormAttrs::read(c.attrs).eps);
    exec.blocks(sums.blocks(), LayerNorm<T, LANES>{sums, PixelsOf<T>(c.outs[0]), floats(c.ins[1]), floats(c.ins[2])});
  }
};

template <>
struct Kernel<OpKind::layer_norm_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    if (has_wide_pixels<T>(c.ins[0]) && has_wide_pixels<T>(c.ins[1]) && has_wide_pixels<T>(c.outs[0]))
      in_steps<T, Wide<T>::LANES>(exec, c);
    else
      in_steps<T, 1>(exec, c);
  }
  template <class T, int LANES, class Exec>
  static void in_steps(Exec& exec, const KernelCall& c) {
    const PixelSums<T, LANES> sums(c.ins[0], LayerNormBwdDataAttrs::read(c.attrs).eps);
    exec.blocks(sums.blocks(), LayerNormGradient<T, LANES>{sums, PixelsOf<T>(c.ins[1]), PixelsOf<T>(c.outs[0]), floats(c.ins[2])});
  }
};

template <>
struct Kernel<OpKind::layer_norm_bwd_weights> : OwnKernel {
  static int64_t moments_bytes(const KernelCall& c) { return ops::pixels(c.ins[0]) * int64_t(sizeof(PixelMoments)); }
  static int64_t workspace(const KernelCall& c) { return moments_bytes(c) + sums_bytes<2>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View &x = c.ins[0], &dy = c.ins[1];
    PixelMoments* const moments = static_cast<PixelMoments*>(c.workspace);
    const bool wide = has_wide_pixels<T>(x);
    if (wide)
      put_moments<T, Wide<T>::LANES>(exec, c, moments);
    else
      put_moments<T, 1>(exec, c, moments);
    float *const dgamma = floats(c.outs[0]), *const dbeta = floats(c.outs[1]);
    const auto finish = [=] SPILLWAY_BOTH(uint32_t ch, const double* sum) {
      dgamma[ch] = float(sum[0]);
      dbeta[ch] = float(sum[1]);
    };
    sum_pixels<2, T>(exec, x, wide && has_wide_pixels<T>(dy), static_cast<char*>(c.workspace) + moments_bytes(c),
                     LayerWeightsTerm<T>{PixelsOf<T>(x), PixelsOf<T>(dy), moments}, finish);
  }
  template <class T, int LANES, class Exec>
  static void put_moments(Exec& exec, const KernelCall& c, PixelMoments* into) {
    const PixelSums<T, LANES> sums(c.ins[0], LayerNormBwdWeightsAttrs::read(c.attrs).eps);
    exec.blocks(sums.blocks(), PutMoments<T, LANES>{sums, into});
  }
};

}  // namespace spillway::cuda
