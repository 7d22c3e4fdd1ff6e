// Batch norm and the rectifier that follows it, in one pass each way. The backward finds from x on which side of zero the
// output was: it reads two values of activation size where batch norm and rectifier by themselves read four.
#include "cpu/batch_moments.hpp"
#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"
#include "cpu/rectify.hpp"

namespace spillway::cpu {
namespace {

/// z = (x - mean)·scale + shift for each channel.
struct Normal {
  float *mean, *scale;
  const float* shift;
};

/// Fills the first two coefficient arrays.
Normal normal_of(const KernelCall& c, const BatchMoments& moments, const Coefficients& k, uint32_t gamma) {
  const Normal n{k[0], k[1], floats(c.ins[gamma + 1])};
  for (int64_t ch = 0; ch < k.channels; ch++) {
    const Moments m = moments(ch);
    n.mean[ch] = float(m.mean);
    n.scale[ch] = float(m.rstd * double(floats(c.ins[gamma])[ch]));
  }
  return n;
}

struct BnReluApply : Affine<2> {
  static constexpr auto check = ops::check_bn_relu_apply;
  static void run(const KernelCall& c) {
    const auto a = BnReluApplyAttrs::read(c.attrs);
    const Coefficients k = coefficients(c);
    const auto [mean, scale, shift] = normal_of(c, BatchMoments(c.ins[1], double(a.count), a.eps), k, 2);
    with_rectifier(float(a.slope), [&c, &k, mean = mean, scale = scale, shift = shift](auto rectifier) {
      each_pixel<2>({&c.outs[0], &c.ins[0]}, [=, channels = k.channels](Pointers<2> at) {
        const auto [y, x] = at;
        const auto passing = rectifier;
#pragma omp simd
        for (int64_t ch = 0; ch < channels; ch++) {
          const float z = (x[ch] - mean[ch]) * scale[ch] + shift[ch];
          y[ch] = passing(z, z);
        }
      });
    });
  }
};

struct BnReluBackwardReduce : PlainKernel {
  static constexpr auto check = ops::check_bn_relu_bwd_reduce;
  static int64_t sums_bytes(const KernelCall& c) { return channel_sums_bytes<2>(c.ins[0]); }
  static int64_t workspace(const KernelCall& c) { return sums_bytes(c) + 2 * c.ins[0].dims[1] * int64_t(sizeof(float)); }
  static void run(const KernelCall& c) {
    const auto a = BnReluBwdReduceAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[2], double(a.count), a.eps);
    const int64_t channels = c.ins[0].dims[1];
    double* const sums = static_cast<double*>(c.workspace);
    const Coefficients k{reinterpret_cast<float*>(static_cast<char*>(c.workspace) + sums_bytes(c)), channels};
    const Normal n = normal_of(c, moments, k, 3);
    const Summands<2, 3> of{{&c.ins[0], &c.ins[1]}, {n.mean, n.scale, n.shift}};
    channel_sums<float, 2>(of, sums, [slope = float(a.slope)](const auto& element, const auto& constant) {
      const auto deviation = element[0] - constant[0];
      const auto z = deviation * constant[1] + constant[2];
      const auto passed = z <= 0 ? slope * element[1] : element[1];
      return std::array{deviation * passed, passed};
    });
    for (int64_t ch = 0; ch < channels; ch++) {
      floats(c.outs[0])[ch] = float(sums[ch] * moments(ch).rstd);
      floats(c.outs[1])[ch] = float(sums[channels + ch]);
    }
  }
};

struct BnReluBackwardData : Affine<4> {
  static constexpr auto check = ops::check_bn_relu_bwd_data;
  static void run(const KernelCall& c) {
    const auto a = BnReluBwdDataAttrs::read(c.attrs);
    const double count = double(a.count);
    const BatchMoments moments(c.ins[2], count, a.eps);
    const Coefficients k = coefficients(c);
    const auto [mean, scale, shift] = normal_of(c, moments, k, 3);
    float *tilt = k[2], *offset = k[3];
    for (int64_t ch = 0; ch < k.channels; ch++) {
      tilt[ch] = float(double(floats(c.ins[5])[ch]) * moments(ch).rstd / count);
      offset[ch] = float(double(floats(c.ins[6])[ch]) / count);
    }
    with_rectifier(float(a.slope), [&c, &k, mean = mean, scale = scale, shift = shift, tilt, offset](auto rectifier) {
      each_pixel<3>({&c.outs[0], &c.ins[0], &c.ins[1]}, [=, channels = k.channels](Pointers<3> at) {
        const auto [dx, x, dy] = at;
        const auto passing = rectifier;
#pragma omp simd
        for (int64_t ch = 0; ch < channels; ch++) {
          const float deviation = x[ch] - mean[ch], z = deviation * scale[ch] + shift[ch];
          dx[ch] = scale[ch] * (passing(z, dy[ch]) - offset[ch] - deviation * tilt[ch]);
        }
      });
    });
  }
};

}  // namespace

const KernelEntry bn_relu_apply = entry<BnReluApply>();
const KernelEntry bn_relu_bwd_reduce = entry<BnReluBackwardReduce>();
const KernelEntry bn_relu_bwd_data = entry<BnReluBackwardData>();

}  // namespace spillway::cpu
