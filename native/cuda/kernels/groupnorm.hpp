// Group norm in parts: statistics of each image's groups, apply, the two halves of the backward.
#pragma once
#include <cmath>

#include "cuda/kernels/batchnorm.hpp"
#include "ops/groupnorm.hpp"

namespace spillway::cuda {

/// Statistics of all images: what channel c of image b is normalised by.
struct GroupMoments {
  float* data;
  int64_t image_stride, groups, size;   // size: channels of a group
  double count, eps;
  GroupMoments(const View& stats, const GroupNormApplyAttrs& a, int64_t channels)
      : data(floats(stats)), image_stride(stats.strides[0]), groups(a.groups), size(channels / a.groups), count(double(a.count)), eps(a.eps) {}
  SPILLWAY_BOTH Moments of(int64_t image, int64_t channel) const {
    const float* const at = data + image * image_stride + channel / size;
    const double mean = double(at[0]) + double(at[2 * groups]), squares = double(at[groups]) + double(at[3 * groups]);
    return {mean, 1.0 / sqrt(squares / count + eps)};
  }
};

/// Work with one column for each image and channel: the terms are the image's pixels.
inline int64_t image_pixels(const View& v) { return v.dims[2] * v.dims[3]; }
inline int64_t image_channels(const View& v) { return v.dims[0] * v.dims[1]; }

template <>
struct Kernel<OpKind::group_norm_stats> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<2>(image_pixels(c.ins[0]), image_channels(c.ins[0])); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& v = c.ins[0];
    const Pixels x(v);
    const int64_t groups = GroupNormStatsAttrs::read(c.attrs).groups, channels = v.dims[1], size = channels / groups, columns = image_channels(v);
    // Deviations from the group's first element: squares of a mean far from zero would cancel.
    const double* const sums = sums_of<2>(exec, image_pixels(v), columns, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t column, double* sum) {
      const uint32_t b = column / x.channels, ch = column % x.channels;
      const double deviation = double(x.at(b, pixel / x.width, pixel % x.width)[ch]) - double(x.at(b, 0, 0)[ch / size * size]);
      sum[0] += deviation;
      sum[1] += deviation * deviation;
    });
    const double count = double(size * image_pixels(v));
    float* const stats = floats(c.outs[0]);
    const int64_t stride = c.outs[0].strides[0];
    exec.each(v.dims[0] * groups, [=] SPILLWAY_BOTH(uint32_t i) {
      const int64_t b = i / groups, g = i % groups;
      double sum = 0, squares = 0;
      for (int64_t ch = b * channels + g * size; ch < b * channels + (g + 1) * size; ch++) {
        sum += sums[ch];
        squares += sums[columns + ch];
      }
      squares -= sum * sum / count;
      const double mean = double(x.at(b, 0, 0)[g * size]) + sum / count, positive = squares > 0 ? squares : 0;
      float* const row = stats + b * stride + g;
      row[0] = float(mean);
      row[groups] = float(positive);
      row[2 * groups] = float(mean - double(row[0]));
      row[3 * groups] = float(positive - double(row[groups]));
    });
  }
};

template <>
struct Kernel<OpKind::group_norm_apply> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]), y(c.outs[0]);
    const GroupMoments moments(c.ins[1], GroupNormApplyAttrs::read(c.attrs), c.ins[0].dims[1]);
    const float *const gamma = c.n_ins > 2 ? floats(c.ins[2]) : nullptr, *const beta = c.n_ins > 2 ? floats(c.ins[3]) : nullptr;
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place p = Place::of(i, y.channels, y.height, y.width);
      const Moments m = moments.of(p.b, p.c);
      const double normal = (double(x.at(p.b, p.h, p.w)[p.c]) - m.mean) * m.rstd;
      y.at(p.b, p.h, p.w)[p.c] = float(gamma ? normal * double(gamma[p.c]) + double(beta[p.c]) : normal);
    });
  }
};

template <>
struct Kernel<OpKind::group_norm_bwd_reduce> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<2>(image_pixels(c.ins[0]), image_channels(c.ins[0])); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& v = c.ins[0];
    const Pixels x(v), dy(c.ins[1]), of_images(c.outs[0]);
    const GroupMoments moments(c.ins[2], GroupNormBwdReduceAttrs::read(c.attrs), v.dims[1]);
    const int64_t columns = image_channels(v), channels = v.dims[1], images = v.dims[0];
    const double* const sums = sums_of<2>(exec, image_pixels(v), columns, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t column, double* sum) {
      const uint32_t b = column / x.channels, ch = column % x.channels, h = pixel / x.width, w = pixel % x.width;
      const Moments m = moments.of(b, ch);
      const double gradient = double(dy.at(b, h, w)[ch]);
      sum[0] += gradient * (double(x.at(b, h, w)[ch]) - m.mean) * m.rstd;
      sum[1] += gradient;
    });
    exec.each(columns, [=] SPILLWAY_BOTH(uint32_t i) {
      float* const row = of_images.at(i / channels, 0, 0);
      row[i % channels] = float(sums[i]);
      row[channels + i % channels] = float(sums[columns + i]);
    });
    for (uint32_t k = 1; k < c.n_outs; k++) {
      float* const into = floats(c.outs[k]);
      const double* const of_kind = sums + (k - 1) * columns;
      exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) {
        double total = 0;
        for (int64_t b = 0; b < images; b++) total += of_kind[b * channels + ch];
        into[ch] = float(total);
      });
    }
  }
};

template <>
struct Kernel<OpKind::group_norm_bwd_data> : OwnKernel {
  /// Two sums for each image and group.
  static int64_t workspace(const KernelCall& c) { return 2 * c.ins[0].dims[0] * GroupNormBwdDataAttrs::read(c.attrs).groups * int64_t(sizeof(double)); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels x(c.ins[0]), dy(c.ins[1]), of_images(c.ins[3]), dx(c.outs[0]);
    const auto a = GroupNormBwdDataAttrs::read(c.attrs);
    const int64_t channels = c.ins[0].dims[1], groups = a.groups, size = channels / groups;
    const GroupMoments moments(c.ins[2], a, channels);
    const float* const gamma = c.n_ins > 4 ? floats(c.ins[4]) : nullptr;
    double* const of_groups = static_cast<double*>(c.workspace);
    exec.each(c.ins[0].dims[0] * groups, [=] SPILLWAY_BOTH(uint32_t i) {
      const float* const row = of_images.at(i / groups, 0, 0);
      double products = 0, plain = 0;
      for (int64_t ch = i % groups * size; ch < (i % groups + 1) * size; ch++) {
        const double scale = gamma ? double(gamma[ch]) : 1.0;
        products += scale * double(row[ch]);
        plain += scale * double(row[channels + ch]);
      }
      of_groups[2 * i] = products;
      of_groups[2 * i + 1] = plain;
    });
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const Place p = Place::of(i, dx.channels, dx.height, dx.width);
      const Moments m = moments.of(p.b, p.c);
      const double* const sums = of_groups + 2 * (p.b * groups + p.c / size);
      const double normal = (double(x.at(p.b, p.h, p.w)[p.c]) - m.mean) * m.rstd, scale = gamma ? double(gamma[p.c]) : 1.0;
      dx.at(p.b, p.h, p.w)[p.c] = float(m.rstd * (scale * double(dy.at(p.b, p.h, p.w)[p.c]) - (sums[1] + normal * sums[0]) / moments.count));
    });
  }
};

}  // namespace spillway::cuda
