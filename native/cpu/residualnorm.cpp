// The end of a residual block in one pass each way: batch norm, sum with the shortcut, rectifier. The sign of each sum is kept as
// a bit, so that the backward reads two values of activation size, twice, and writes both gradients.
#include "ops/residualnorm.hpp"

#include "cpu/rectified_norm.hpp"
#include "cpu/signs.hpp"

namespace spillway::cpu {
namespace {

/// A pixel of a view, or its signs.
template <class T>
T* at(const View& v, int64_t row, int64_t w) {
  return pixel_of<T>(v, row / v.dims[2], row % v.dims[2], w);
}

/// Calls body(row, w) for each pixel.
template <class Body>
void each_place(const View& v, const Body& body) {
  const int64_t rows = v.dims[0] * v.dims[2];
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t w = 0; w < v.dims[3]; w++) body(row, w);
}

struct BnAddReluApply : Affine<2> {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x_view = c.ins[0], &shortcut_view = c.ins[1], &y_view = c.outs[0], &signs_view = c.outs[1];
    const RectifiedNorm norm = rectified_norm(c, {&x_view, 1}, 2, BnAddReluApplyAttrs::read(c.attrs));
    const NormScale n = norm.scale(coefficients(c));
    const float* const shift = norm.shift();
    const int64_t channels = x_view.dims[1];
    const float slope = norm.slope;
    each_place(y_view, [&](int64_t row, int64_t w) {
      const T *const x = at<T>(x_view, row, w), *const shortcut = at<T>(shortcut_view, row, w);
      T* const y = at<T>(y_view, row, w);
      uint32_t* const signs = at<uint32_t>(signs_view, row, w);
      for (int64_t first = 0; first < channels; first += ops::SIGNS_PER_WORD) {
        uint32_t word = 0;
        each_block(first, std::min(channels, first + ops::SIGNS_PER_WORD), [&]<class V>(V, int64_t ch) {
          const V normal = (load_as<V>(x + ch) - load_as<V>(n.mean + ch)) * load_as<V>(n.scale + ch) + load_as<V>(shift + ch);
          const V z = normal + load_as<V>(shortcut + ch);
          const uint32_t bits = signs_of(z);
          word |= bits << (ch - first);
          store_as(y + ch, passed(bits, slope, z));
        });
        signs[first / ops::SIGNS_PER_WORD] = word;
      }
    });
  }
};

struct BnAddReluBackwardReduce : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return channel_sums_bytes<2>(c.ins[1]); }
  static void run(const KernelCall& c) {
    const auto a = BnAddReluBwdReduceAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[3], double(a.count), a.eps);
    const int64_t channels = c.ins[0].dims[1];
    double* const sums = static_cast<double*>(c.workspace);
    const Summands<2, 1, true> of{{&c.ins[0], 1}, {&c.ins[1]}, {moments.mean}, &c.ins[2]};
    channel_sums<float, 2>(of, sums, [slope = float(a.slope)](const auto& element, const auto& constant, uint32_t signs) {
      const auto dz = passed(signs, slope, element[1]);
      return std::array{(element[0] - constant[0]) * dz, dz};
    });
    for (int64_t ch = 0; ch < channels; ch++) {
      floats(c.outs[0])[ch] = float(sums[ch] * moments(ch).rstd);
      floats(c.outs[1])[ch] = float(sums[channels + ch]);
    }
  }
};

struct BnAddReluBackwardData : Affine<4> {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnAddReluBwdDataAttrs::read(c.attrs);
    const View &x_view = c.ins[0], &dy_view = c.ins[1], &signs_view = c.ins[2], &dshortcut_view = c.outs[0], &dx_view = c.outs[1];
    const BatchMoments moments(c.ins[3], double(a.count), a.eps);
    const Coefficients k = coefficients(c);
    const NormScale n = scale_of(moments, c.ins[4], k);
    const NormGradient g = gradient_of(moments, c.ins + 5, k);
    const int64_t channels = x_view.dims[1];
    const float slope = float(a.slope);
    each_place(dx_view, [&](int64_t row, int64_t w) {
      const T *const x = at<T>(x_view, row, w), *const dy = at<T>(dy_view, row, w);
      T *const dshortcut = at<T>(dshortcut_view, row, w), *const dx = at<T>(dx_view, row, w);
      const uint32_t* const signs = at<uint32_t>(signs_view, row, w);
      each_block(0, channels, [&]<class V>(V, int64_t ch) {
        const V dz = passed(signs_at<V>(signs, ch), slope, load_as<V>(dy + ch));
        const V deviation = load_as<V>(x + ch) - load_as<V>(n.mean + ch);
        store_as(dshortcut + ch, dz);
        store_as(dx + ch, load_as<V>(n.scale + ch) * (dz - load_as<V>(g.offset + ch) - deviation * load_as<V>(g.tilt + ch)));
      });
    });
  }
};

}  // namespace

const KernelEntry bn_add_relu_apply = entry<BnAddReluApply>();
const KernelEntry bn_add_relu_bwd_reduce = entry<BnAddReluBackwardReduce>();
const KernelEntry bn_add_relu_bwd_data = entry<BnAddReluBackwardData>();

}  // namespace spillway::cpu
