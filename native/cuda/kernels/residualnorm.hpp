// The end of a residual block in one pass each way: batch norm, sum with the shortcut, rectifier. The sign of each sum is kept as a
// bit, a word for what a warp computes side by side.
#pragma once
#include "cuda/kernels/batchnorm_relu.hpp"
#include "ops/residualnorm.hpp"

namespace spillway::cuda {

/// Signs by pixel, and what passes a rectifier of `slope` by them.
struct SignsOf {
  PixelsOf<uint32_t> words;
  float slope;
  SignsOf(const View& signs, float slope_) : words(signs), slope(slope_) {}
  SPILLWAY_BOTH float passed(uint32_t pixel, uint32_t ch, float value) const {
    return words.at(pixel)[ch / ops::SIGNS_PER_WORD] >> (ch % ops::SIGNS_PER_WORD) & 1 ? value : slope == 0 ? 0.0f : slope * value;
  }
};

template <>
struct Kernel<OpKind::bn_add_relu_apply> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return coefficient_bytes(c, 2); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnAddReluApplyAttrs::read(c.attrs);
    const Rectified r = rectified(exec, c, BatchMoments(c.ins[2], double(a.count), a.eps), 3, float(a.slope), static_cast<float*>(c.workspace));
    const PixelsOf<T> x(c.ins[0]), shortcut(c.ins[1]), y(c.outs[0]);
    const PixelsOf<uint32_t> signs(c.outs[1]);
    exec.words(
        ops::elements(c.outs[1]),
        [=] SPILLWAY_BOTH(uint32_t word, uint32_t bit) {
          const uint32_t pixel = word / signs.channels, ch = word % signs.channels * uint32_t(ops::SIGNS_PER_WORD) + bit;
          if (ch >= x.channels) return false;
          const float z = r.z(r.deviation(x.at(pixel)[ch], ch), ch) + float(shortcut.at(pixel)[ch]);
          y.at(pixel)[ch] = r.passed(z, z);
          return !(z <= 0);
        },
        [=] SPILLWAY_BOTH(uint32_t word, uint32_t bits) { signs.at(word / signs.channels)[word % signs.channels] = bits; });
  }
};

template <>
struct Kernel<OpKind::bn_add_relu_bwd_reduce> : ChannelReduction {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnAddReluBwdReduceAttrs::read(c.attrs);
    const PixelsOf<T> dy(c.ins[1]);
    const SignsOf signs(c.ins[2], float(a.slope));
    reduce<T>(exec, c, BatchMoments(c.ins[3], double(a.count), a.eps),
              [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch) { return signs.passed(pixel, ch, dy.at(pixel)[ch]); });
  }
};

template <>
struct Kernel<OpKind::bn_add_relu_bwd_data> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return coefficient_bytes(c, 4); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = BnAddReluBwdDataAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[3], double(a.count), a.eps);
    const NormGradient g = norm_gradient(exec, c, moments, 4, 5);
    const PixelsOf<T> x(c.ins[0]), dy(c.ins[1]), dshortcut(c.outs[0]), dx(c.outs[1]);
    const SignsOf signs(c.ins[2], float(a.slope));
    exec.each(ops::elements(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const uint32_t pixel = i / x.channels, ch = i % x.channels;
      const float dz = signs.passed(pixel, ch, dy.at(pixel)[ch]);
      dshortcut.at(pixel)[ch] = dz;
      dx.at(pixel)[ch] = g.dx(x.at(pixel)[ch], dz, ch);
    });
  }
};

}  // namespace spillway::cuda
