// Layer norm over the channels of each pixel, and its gradients. Some items of a block have a pixel together: side by side along its
// channels, 16 bytes each where the operands allow that. Sums are in float: an item has few terms, and the variance is of deviations
// from the mean. The gradient of fewer than LEAST_IN_FLOAT channels is in double: of two channels only a multiple of eps is left.
#pragma once
#include <cmath>

#include "cuda/kernels/batchnorm.hpp"
#include "cuda/kernels/kernel.hpp"

namespace spillway::cuda {

constexpr int64_t LEAST_IN_FLOAT = 8;

/// The moments that normalise the channels of a pixel.
template <class Real>
struct PixelMoments {
  Real mean, rstd;
};

/// Two sums over the channels of a pixel at a time, in the order of items: phases of a block that has BLOCK_ITEMS / across pixels.
template <class T, int LANES, class Real = float>
struct PixelSums {
  static constexpr uint32_t MOST_ACROSS = 32;  // a warp
  static constexpr int MOMENT_PHASES = 4;
  struct Shared {
    Real at[2][BLOCK_ITEMS];
    PixelMoments<Real> moments[BLOCK_ITEMS];
  };
  PixelsOf<T> x;
  uint32_t pixels, across;
  Real eps, share;  // the share of a channel in a mean

  PixelSums(const View& v, double eps_)
      : x(v), pixels(uint32_t(ops::pixels(v))), across(1), eps(Real(eps_)), share(Real(1 / double(v.dims[1]))) {
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
  /// The phases that make the moments of a block's pixels: an estimate of the mean, then deviations from it. Their sum corrects the
  /// estimate.
  template <int phase>
  SPILLWAY_BOTH void find_moments(Shared& shared, uint32_t at, uint32_t item) const {
    PixelMoments<Real>& m = shared.moments[item / across];
    Real sum[2];
    if constexpr (phase == 0) gather(shared, at, item, 0);
    if constexpr (phase == 1)
      if (merged(shared, item, sum)) m.mean = sum[0] * share;
    if constexpr (phase == 2) gather(shared, at, item, m.mean);
    if constexpr (phase == 3)
      if (merged(shared, item, sum)) {
        const Real squares = sum[1] - sum[0] * sum[0] * share;
        m = {m.mean + sum[0] * share, reciprocal_root((squares > 0 ? squares : 0) * share + eps)};
      }
  }
  /// Returns true for the item that adds up; then both sums are those of all items.
  SPILLWAY_BOTH bool merged(const Shared& shared, uint32_t item, Real (&sum)[2]) const {
    if (item % across != 0) return false;
    for (int s = 0; s < 2; s++) {
      sum[s] = 0;
      for (uint32_t i = item; i < item + across; i++) sum[s] += shared.at[s][i];
    }
    return true;
  }

 private:
  /// The item's sums of deviations from a value and of their squares.
  SPILLWAY_BOTH void gather(Shared& shared, uint32_t at, uint32_t item, Real from) const {
    const T* const values_at = x.at(at);
    Real sum = 0, squares = 0;
    each_channels(item, [&](uint32_t ch) {
      float values[LANES];
      fetch<LANES>(values_at + ch, values);
      for (int lane = 0; lane < LANES; lane++) {
        const Real deviation = Real(values[lane]) - from;
        sum += deviation;
        squares += deviation * deviation;
      }
    });
    shared.at[0][item] = sum;
    shared.at[1][item] = squares;
  }
};

template <class T, int LANES>
struct LayerNorm {
  static constexpr int MOMENT_PHASES = PixelSums<T, LANES>::MOMENT_PHASES, PHASES = MOMENT_PHASES + 1;
  using Shared = typename PixelSums<T, LANES>::Shared;
  PixelSums<T, LANES> of;
  PixelsOf<T> y;
  const float *gamma, *beta;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t pixel = of.pixel(block, item);
    if (pixel >= of.pixels) return;
    if constexpr (phase < MOMENT_PHASES)
      of.template find_moments<phase>(shared, pixel, item);
    else
      apply(shared.moments[item / of.across], pixel, item);
  }

 private:
  SPILLWAY_BOTH void apply(const PixelMoments<float>& m, uint32_t pixel, uint32_t item) const {
    const T* const from = of.x.at(pixel);
    T* const to = y.at(pixel);
    of.each_channels(item, [&](uint32_t ch) {
      float values[LANES];
      fetch<LANES>(from + ch, values);
      for (int lane = 0; lane < LANES; lane++)
        values[lane] = (values[lane] - m.mean) * m.rstd * gamma[ch + uint32_t(lane)] + (beta ? beta[ch + uint32_t(lane)] : 0);
      put<LANES>(to + ch, values);
    });
  }
};

/// dx = rstd·(gamma·dy - (Σ gamma·dy + normal·Σ gamma·dy·normal)/C), where normal = (x - mean)·rstd.
template <class T, int LANES, class Real>
struct LayerNormGradient {
  static constexpr int MOMENT_PHASES = PixelSums<T, LANES, Real>::MOMENT_PHASES, PHASES = MOMENT_PHASES + 3;
  using Shared = typename PixelSums<T, LANES, Real>::Shared;
  PixelSums<T, LANES, Real> of;
  PixelsOf<T> dy, dx;
  const float* gamma;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t pixel = of.pixel(block, item);
    if (pixel >= of.pixels) return;
    if constexpr (phase < MOMENT_PHASES) of.template find_moments<phase>(shared, pixel, item);
    if constexpr (phase == MOMENT_PHASES) gather_gradients(shared, pixel, item);
    if constexpr (phase == MOMENT_PHASES + 1) {
      Real sum[2];
      if (!of.merged(shared, item, sum)) return;
      shared.at[0][item] = sum[0] * of.share;
      shared.at[1][item] = sum[1] * of.share;
    }
    if constexpr (phase == MOMENT_PHASES + 2) {
      const uint32_t first = item / of.across * of.across;
      apply(shared.moments[item / of.across], shared.at[0][first], shared.at[1][first], pixel, item);
    }
  }

 private:
  SPILLWAY_BOTH void gather_gradients(Shared& shared, uint32_t pixel, uint32_t item) const {
    const PixelMoments<Real> m = shared.moments[item / of.across];
    const T *const value = of.x.at(pixel), *const gradient = dy.at(pixel);
    Real plain = 0, products = 0;
    of.each_channels(item, [&](uint32_t ch) {
      float values[LANES], gradients[LANES];
      fetch<LANES>(value + ch, values);
      fetch<LANES>(gradient + ch, gradients);
      for (int lane = 0; lane < LANES; lane++) {
        const Real g = Real(gamma[ch + uint32_t(lane)]) * Real(gradients[lane]);
        plain += g;
        products += g * (Real(values[lane]) - m.mean);
      }
    });
    shared.at[0][item] = plain;
    shared.at[1][item] = products * m.rstd;
  }
  SPILLWAY_BOTH void apply(const PixelMoments<Real>& m, Real offset, Real tilt, uint32_t pixel, uint32_t item) const {
    const T *const value = of.x.at(pixel), *const gradient = dy.at(pixel);
    T* const to = dx.at(pixel);
    of.each_channels(item, [&](uint32_t ch) {
      float values[LANES], gradients[LANES];
      fetch<LANES>(value + ch, values);
      fetch<LANES>(gradient + ch, gradients);
      for (int lane = 0; lane < LANES; lane++) {
        const Real g = Real(gamma[ch + uint32_t(lane)]) * Real(gradients[lane]), normal = (Real(values[lane]) - m.mean) * m.rstd;
        values[lane] = float(m.rstd * (g - offset - normal * tilt));
      }
      put<LANES>(to + ch, values);
    });
  }
};

/// The moments of all pixels, one after the other.
template <class T, int LANES>
struct PutMoments {
  static constexpr int MOMENT_PHASES = PixelSums<T, LANES>::MOMENT_PHASES, PHASES = MOMENT_PHASES + 1;
  using Shared = typename PixelSums<T, LANES>::Shared;
  PixelSums<T, LANES> of;
  PixelMoments<float>* into;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t block, uint32_t item) const {
    const uint32_t pixel = of.pixel(block, item);
    if (pixel >= of.pixels) return;
    if constexpr (phase < MOMENT_PHASES)
      of.template find_moments<phase>(shared, pixel, item);
    else if (item % of.across == 0)
      into[pixel] = shared.moments[item / of.across];
  }
};

template <class T>
struct LayerWeightsTerm {
  using Part = float;
  PixelsOf<T> x, dy;
  const PixelMoments<float>* moments;
  SPILLWAY_BOTH Nothing at(uint32_t) const { return {}; }
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void add(const Of&, Nothing, uint32_t pixel, uint32_t ch, float (&sum)[LANES][2]) const {
    const PixelMoments<float> m = moments[pixel];
    float values[LANES], gradients[LANES];
    fetch<LANES>(x.at(pixel) + ch, values);
    fetch<LANES>(dy.at(pixel) + ch, gradients);
    for (int lane = 0; lane < LANES; lane++) {
      sum[lane][0] += gradients[lane] * (values[lane] - m.mean) * m.rstd;
      sum[lane][1] += gradients[lane];
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
    exec.blocks(sums.blocks(),
                LayerNorm<T, LANES>{sums, PixelsOf<T>(c.outs[0]), floats(c.ins[1]), c.n_ins > 2 ? floats(c.ins[2]) : nullptr});
  }
};

template <>
struct Kernel<OpKind::layer_norm_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    if (c.ins[0].dims[1] < LEAST_IN_FLOAT)
      in_steps<T, 1, double>(exec, c);
    else if (has_wide_pixels<T>(c.ins[0]) && has_wide_pixels<T>(c.ins[1]) && has_wide_pixels<T>(c.outs[0]))
      in_steps<T, Wide<T>::LANES, float>(exec, c);
    else
      in_steps<T, 1, float>(exec, c);
  }
  template <class T, int LANES, class Real, class Exec>
  static void in_steps(Exec& exec, const KernelCall& c) {
    const PixelSums<T, LANES, Real> sums(c.ins[0], LayerNormBwdDataAttrs::read(c.attrs).eps);
    exec.blocks(sums.blocks(), LayerNormGradient<T, LANES, Real>{sums, PixelsOf<T>(c.ins[1]), PixelsOf<T>(c.outs[0]), floats(c.ins[2])});
  }
};

template <>
struct Kernel<OpKind::layer_norm_bwd_weights> : OwnKernel {
  static int64_t moments_bytes(const KernelCall& c) { return ops::pixels(c.ins[0]) * int64_t(sizeof(PixelMoments<float>)); }
  static int64_t workspace(const KernelCall& c) { return moments_bytes(c) + sums_bytes<2>(ops::pixels(c.ins[0]), c.ins[0].dims[1]); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View &x = c.ins[0], &dy = c.ins[1];
    auto* const moments = static_cast<PixelMoments<float>*>(c.workspace);
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
  static void put_moments(Exec& exec, const KernelCall& c, PixelMoments<float>* into) {
    const PixelSums<T, LANES> sums(c.ins[0], LayerNormBwdWeightsAttrs::read(c.attrs).eps);
    exec.blocks(sums.blocks(), PutMoments<T, LANES>{sums, into});
  }
};

}  // namespace spillway::cuda
