// Group norm in parts: statistics of each image's groups, apply, the two halves of the backward. Image by image, and
// within one like batch norm: sums for each channel in double, then affine maps with coefficients for each channel.
#include "ops/groupnorm.hpp"

#include <cmath>

#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"

namespace spillway::cpu {
namespace {

const float* row_of(const View& v, int64_t image) { return floats(v) + image * v.strides[0]; }

/// The moments that normalise the groups of an image.
struct GroupMoments {
  GroupMoments(const View& view, int64_t image, const GroupNormApplyAttrs& a) : stats(view, image), count(double(a.count)), eps(a.eps) {}
  double mean(int64_t group) const { return stats.mean(group); }
  double rstd(int64_t group) const { return 1.0 / std::sqrt(stats.squares(group) / count + eps); }
  ops::Statistics<float> stats;
  double count, eps;
};

struct GroupNormStats : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return Deviations::bytes(image_of(c.ins[0], 0)); }
  static void run(const KernelCall& c) {
    const int64_t groups = GroupNormStatsAttrs::read(c.attrs).groups, size = c.ins[0].dims[1] / groups;
    for (int64_t image = 0; image < c.ins[0].dims[0]; image++) {
      const Deviations deviations(image_of(c.ins[0], image), c.workspace);
      const ops::Statistics<float> stats(c.outs[0], image);
      for (int64_t g = 0; g < groups; g++) put_group(stats, g, deviations, g * size, (g + 1) * size);
    }
  }

 private:
  /// The statistics of channels [first, end), merged.
  static void put_group(const ops::Statistics<float>& stats, int64_t group, const Deviations& of, int64_t first, int64_t end) {
    double mean = 0, squares = 0;
    for (int64_t c = first; c < end; c++) mean += of.mean(c) / double(end - first);
    for (int64_t c = first; c < end; c++) squares += of.square(c) + of.pixels * (of.mean(c) - mean) * (of.mean(c) - mean);
    stats.put(group, mean, squares);
  }
};

struct GroupNormApply : Affine<3> {
  static void run(const KernelCall& c) {
    const auto a = GroupNormApplyAttrs::read(c.attrs);
    const Coefficients k = coefficients(c);
    float *mean = k[0], *scale = k[1], *shift = k[2];
    const int64_t size = k.channels / a.groups;
    for (int64_t image = 0; image < c.ins[0].dims[0]; image++) {
      const GroupMoments moments(c.ins[1], image, a);
      for (int64_t ch = 0; ch < k.channels; ch++) {
        mean[ch] = float(moments.mean(ch / size));
        scale[ch] = float(moments.rstd(ch / size) * (c.n_ins > 2 ? double(floats(c.ins[2])[ch]) : 1));
        shift[ch] = c.n_ins > 3 ? floats(c.ins[3])[ch] : 0;
      }
      const View x = image_of(c.ins[0], image), y = image_of(c.outs[0], image);
      each_pixel<2>({&y, &x}, [=](Pointers<2> at, int64_t first, int64_t n) {
        float *const to = at[0], *const from = at[1];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = (from[i] - mean[first + i]) * scale[first + i] + shift[first + i];
      });
    }
  }
};

struct GroupNormBackwardReduce : PlainKernel {
  /// Sums for each channel of an image, then totals over the images, then means.
  static int64_t workspace(const KernelCall& c) {
    return channel_sums_bytes<2>(image_of(c.ins[0], 0)) + c.ins[0].dims[1] * int64_t(2 * sizeof(double) + sizeof(float));
  }
  static void run(const KernelCall& c) {
    const auto a = GroupNormBwdReduceAttrs::read(c.attrs);
    const int64_t channels = c.ins[0].dims[1], size = channels / a.groups;
    double* sums = static_cast<double*>(c.workspace);
    double* totals = sums + channel_sums_bytes<2>(image_of(c.ins[0], 0)) / int64_t(sizeof(double));
    float* mean = reinterpret_cast<float*>(totals + 2 * channels);
    std::fill_n(totals, 2 * channels, 0.0);
    for (int64_t image = 0; image < c.ins[0].dims[0]; image++) {
      const GroupMoments moments(c.ins[2], image, a);
      for (int64_t ch = 0; ch < channels; ch++) mean[ch] = float(moments.mean(ch / size));
      const View x = image_of(c.ins[0], image), dy = image_of(c.ins[1], image);
      const Summands<2, 1> of{{&x, 1}, {&dy}, {mean}};
      channel_sums<float, 2>(of, sums, centred_products);
      float* row = floats(c.outs[0]) + image * c.outs[0].strides[0];
      for (int64_t ch = 0; ch < channels; ch++) {
        sums[ch] *= moments.rstd(ch / size);
        row[ch] = float(sums[ch]);
        row[channels + ch] = float(sums[channels + ch]);
        totals[ch] += sums[ch];
        totals[channels + ch] += sums[channels + ch];
      }
    }
    for (uint32_t i = 1; i < c.n_outs; i++)
      for (int64_t ch = 0; ch < channels; ch++) floats(c.outs[i])[ch] = float(totals[(i - 1) * channels + ch]);
  }
};

struct GroupNormBackwardData : Affine<4> {
  static void run(const KernelCall& c) {
    const auto a = GroupNormBwdDataAttrs::read(c.attrs);
    const Coefficients k = coefficients(c);
    float *mean = k[0], *scale = k[1], *slope = k[2], *offset = k[3];
    for (int64_t image = 0; image < c.ins[0].dims[0]; image++) {
      for (int64_t g = 0; g < a.groups; g++) group_coefficients(c, k, a, image, g);
      const View x = image_of(c.ins[0], image), dy = image_of(c.ins[1], image), dx = image_of(c.outs[0], image);
      each_pixel<3>({&dx, &x, &dy}, [=](Pointers<3> at, int64_t first, int64_t n) {
        float *const to = at[0], *const value = at[1], *const gradient = at[2];
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
          to[i] = scale[first + i] * gradient[i] - offset[first + i] - (value[i] - mean[first + i]) * slope[first + i];
      });
    }
  }

 private:
  /// dx = scale·dy − offset − (x − mean)·slope for the channels of a group.
  static void group_coefficients(const KernelCall& c, const Coefficients& k, const GroupNormApplyAttrs& a, int64_t image, int64_t group) {
    const GroupMoments moments(c.ins[2], image, a);
    const float* sums = row_of(c.ins[3], image);
    const int64_t size = k.channels / a.groups, first = group * size;
    const auto gamma = [&](int64_t ch) { return c.n_ins > 4 ? double(floats(c.ins[4])[ch]) : 1.0; };
    double products = 0, plain = 0;
    for (int64_t ch = first; ch < first + size; ch++) {
      products += gamma(ch) * double(sums[ch]);
      plain += gamma(ch) * double(sums[k.channels + ch]);
    }
    const double rstd = moments.rstd(group), count = double(a.count);
    for (int64_t ch = first; ch < first + size; ch++) {
      k[0][ch] = float(moments.mean(group));
      k[1][ch] = float(gamma(ch) * rstd);
      k[2][ch] = float(rstd * rstd * products / count);
      k[3][ch] = float(rstd * plain / count);
    }
  }
};

}  // namespace

const KernelEntry group_norm_stats = entry<GroupNormStats>();
const KernelEntry group_norm_apply = entry<GroupNormApply>();
const KernelEntry group_norm_bwd_reduce = entry<GroupNormBackwardReduce>();
const KernelEntry group_norm_bwd_data = entry<GroupNormBackwardData>();

}  // namespace spillway::cpu
