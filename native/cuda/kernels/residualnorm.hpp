// The end of a residual block in one pass each way: batch norm, sum with the shortcut, rectifier. The sign of each sum is kept as a
// bit: an item has eight channels and writes their byte.
#pragma once
#include "cuda/kernels/batchnorm_relu.hpp"
#include "ops/residualnorm.hpp"

namespace spillway::cuda {

/// Signs by pixel, SIGNS_PER_BYTE channels side by side in a byte: a bit of the byte at its place in the word.
constexpr uint32_t SIGNS_PER_BYTE = 8;

struct SignsOf {
  PixelsOf<uint32_t> words;
  float slope;
  SignsOf(const View& signs, float slope_) : words(signs), slope(slope_) {}
  /// Those of a channel and of the rest of its word, the channel's first.
  SPILLWAY_BOTH uint32_t bits(uint32_t pixel, uint32_t ch) const {
    return words.at(pixel)[ch / ops::SIGNS_PER_WORD] >> (ch % ops::SIGNS_PER_WORD);
  }
  SPILLWAY_BOTH float passed(float value, uint32_t bit) const { return bit ? value : slope == 0 ? 0.0f : slope * value; }
};

struct ResidualGate {
  OpenGate means;
  SignsOf signs;
  SPILLWAY_BOTH OpenGate::At at(uint32_t ch) const { return means.at(ch); }
  SPILLWAY_BOTH uint32_t bits(uint32_t pixel, uint32_t ch) const { return signs.bits(pixel, ch); }
  SPILLWAY_BOTH float passed(const OpenGate::At&, float, float dy, uint32_t bit) const { return signs.passed(dy, bit); }
};

/// STEP: channels of one access.
template <class T, int STEP>
struct ResidualSum {
  PixelsOf<T> x, shortcut, y;
  PixelsOf<uint32_t> signs;
  NormOf<BatchMoments> norm;
  float slope;

  /// Behind the last channel there are signs, too.
  SPILLWAY_BOTH NormAt at(uint32_t ch) const { return ch < x.channels ? norm.at(ch) : NormAt{}; }
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  /// An item has the channels of a byte of signs.
  template <int LANES, class Of>
  SPILLWAY_BOTH void step(const Of& of, Nothing, uint32_t pixel, uint32_t ch) const {
    static_assert(LANES == SIGNS_PER_BYTE);
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; lane += STEP)
      if (ch + uint32_t(lane) < x.channels) bits |= sum(of.at + lane, pixel, ch + uint32_t(lane)) << lane;
    reinterpret_cast<uint8_t*>(signs.at(pixel))[ch / SIGNS_PER_BYTE] = uint8_t(bits);
  }

 private:
  /// The signs of STEP channels.
  SPILLWAY_BOTH uint32_t sum(const NormAt* of, uint32_t pixel, uint32_t ch) const {
    float values[STEP], others[STEP];
    fetch<STEP>(x.at(pixel) + ch, values);
    fetch<STEP>(shortcut.at(pixel) + ch, others);
    uint32_t bits = 0;
    for (int lane = 0; lane < STEP; lane++) {
      const float z = of[lane].z(values[lane] - of[lane].mean) + others[lane];
      bits |= uint32_t(!(z <= 0)) << lane;
      values[lane] = rectified_by(z, z, slope);
    }
    put<STEP>(y.at(pixel) + ch, values);
    return bits;
  }
};

template <>
struct Kernel<OpKind::bn_add_relu_apply> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    if (has_wide_pixels<T>(c.ins[0]) && has_wide_pixels<T>(c.ins[1]) && has_wide_pixels<T>(c.outs[0]))
      in_steps<T, Wide<T>::LANES>(exec, c);
    else
      in_steps<T, 1>(exec, c);
  }
  template <class T, int STEP, class Exec>
  static void in_steps(Exec& exec, const KernelCall& c) {
    const auto a = BnAddReluApplyAttrs::read(c.attrs);
    const PixelsOf<T> x(c.ins[0]), shortcut(c.ins[1]), y(c.outs[0]);
    const NormOf<BatchMoments> norm = norm_of(c, BatchMoments(c.ins[2], double(a.count), a.eps), 3);
    each_by_channels<SIGNS_PER_BYTE>(exec, ops::pixels(c.ins[0]), c.outs[1].dims[1] * ops::SIGNS_PER_WORD,
                                     ResidualSum<T, STEP>{x, shortcut, y, PixelsOf<uint32_t>(c.outs[1]), norm, float(a.slope)});
  }
};

template <>
struct Kernel<OpKind::bn_add_relu_bwd_reduce> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnAddReluBwdReduceAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[3], double(a.count), a.eps);
    reduce<T>(exec, c, moments, ResidualGate{{moments.means}, SignsOf(c.ins[2], float(a.slope))});
  }
};

template <class T>
struct ResidualGradient {
  PixelsOf<T> x, dy, dshortcut, dx;
  SignsOf signs;
  NormGradient norm;
  SPILLWAY_BOTH NormGradientAt at(uint32_t ch) const { return norm.at(ch); }
  template <int LANES>
  SPILLWAY_BOTH Nothing start(uint32_t) const {
    return {};
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void step(const Of& of, Nothing, uint32_t pixel, uint32_t ch) const {
    float values[LANES], gradients[LANES];
    fetch<LANES>(x.at(pixel) + ch, values);
    fetch<LANES>(dy.at(pixel) + ch, gradients);
    const uint32_t bits = signs.bits(pixel, ch);
    for (int lane = 0; lane < LANES; lane++) {
      gradients[lane] = signs.passed(gradients[lane], bits >> lane & 1);
      values[lane] = of.at[lane].dx(values[lane], gradients[lane]);
    }
    put<LANES>(dshortcut.at(pixel) + ch, gradients);
    put<LANES>(dx.at(pixel) + ch, values);
  }
};

template <>
struct Kernel<OpKind::bn_add_relu_bwd_data> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnAddReluBwdDataAttrs::read(c.attrs);
    const ResidualGradient<T> gradient{PixelsOf<T>(c.ins[0]),
                                       PixelsOf<T>(c.ins[1]),
                                       PixelsOf<T>(c.outs[0]),
                                       PixelsOf<T>(c.outs[1]),
                                       SignsOf(c.ins[2], float(a.slope)),
                                       norm_gradient(c, BatchMoments(c.ins[3], double(a.count), a.eps), 4, 5)};
    const int64_t pixels = ops::pixels(c.ins[0]), channels = c.ins[0].dims[1];
    if (has_wide_pixels<T>(c.ins[0]) && has_wide_pixels<T>(c.ins[1]) && has_wide_pixels<T>(c.outs[0]) && has_wide_pixels<T>(c.outs[1]))
      return each_by_channels<Wide<T>::LANES>(exec, pixels, channels, gradient);
    each_by_channels<1>(exec, pixels, channels, gradient);
  }
};

}  // namespace spillway::cuda
