// Group norm in parts: statistics of each image's groups, apply, the two halves of the backward.
#pragma once
#include <cmath>

#include "cuda/kernels/batchnorm.hpp"
#include "ops/groupnorm.hpp"

namespace spillway::cuda {

/// The statistics of all images, which normalise channel c of image b.
struct GroupMoments {
  float* data;
  int64_t image_stride, groups, size;  // size: channels of a group
  double share, eps;                   // the share of an element in a mean
  GroupMoments(const View& stats, const GroupNormApplyAttrs& a, int64_t channels)
      : data(floats(stats)),
        image_stride(stats.strides[0]),
        groups(a.groups),
        size(channels / a.groups),
        share(1 / double(a.count)),
        eps(a.eps) {}
  SPILLWAY_BOTH Moments of(int64_t image, int64_t channel) const {
    const float* const at = data + image * image_stride + channel / size;
    const double mean = double(at[0]) + double(at[2 * groups]), squares = double(at[groups]) + double(at[3 * groups]);
    return {mean, reciprocal_root(squares * share + eps)};
  }
};

/// Work with one column for each image and channel: the terms are the image's pixels.
inline int64_t image_pixels(const View& v) { return v.dims[2] * v.dims[3]; }
inline int64_t image_channels(const View& v) { return v.dims[0] * v.dims[1]; }

/// The state of an item with columns side by side, which are channels of one image: its first pixel, and the first channel.
struct InImage {
  uint32_t pixel, channel;
};

template <class T>
SPILLWAY_BOTH InImage image_of(const PixelsOf<T>& x, uint32_t column) {
  return {column / x.channels * x.height * x.width, column % x.channels};
}

/// Deviations from the first element of the group.
template <class T>
struct GroupMomentTerm {
  using Part = float;
  PixelsOf<T> x;
  uint32_t size;
  SPILLWAY_BOTH NearTo at(uint32_t column) const {
    return NearTo{float(x.at(column / x.channels, 0, 0)[column % x.channels / size * size])};
  }
  template <int LANES>
  SPILLWAY_BOTH InImage start(uint32_t column) const {
    return image_of(x, column);
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void add(const Of& first, InImage start, uint32_t pixel, uint32_t, float (&sum)[LANES][2]) const {
    float values[LANES];
    fetch<LANES>(x.at(start.pixel + pixel) + start.channel, values);
    add_moments<LANES>(first, values, sum);
  }
};

/// y = f.of(f.at(image, channel), values of the N inputs at this place).
template <class T, int N, class F>
struct MapByImage {
  PixelsOf<T> y;
  PixelArrays<T, N> in;
  F f;
  SPILLWAY_BOTH auto at(uint32_t column) const { return f.at(column / y.channels, column % y.channels); }
  template <int LANES>
  SPILLWAY_BOTH InImage start(uint32_t column) const {
    return image_of(y, column);
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void step(const Of& of, InImage start, uint32_t pixel, uint32_t) const {
    float x[N][LANES], result[LANES];
    for (int k = 0; k < N; k++) fetch<LANES>(in.of[k].at(start.pixel + pixel) + start.channel, x[k]);
    for (int lane = 0; lane < LANES; lane++) {
      float values[N];
      for (int k = 0; k < N; k++) values[k] = x[k][lane];
      result[lane] = f.of(of.at[lane], values);
    }
    put<LANES>(y.at(start.pixel + pixel) + start.channel, result);
  }
};

template <class T, int N, class Exec, class F>
void map_by_image(Exec& exec, const View& y, const View* const (&xs)[N], F f) {
  MapByImage<T, N, F> body{PixelsOf<T>(y), {}, f};
  bool wide = has_wide_pixels<T>(y);
  for (int k = 0; k < N; k++) {
    body.in.of[k] = PixelsOf<T>(*xs[k]);
    wide = wide && has_wide_pixels<T>(*xs[k]);
  }
  if (wide)
    each_by_channels<Wide<T>::LANES>(exec, image_pixels(y), image_channels(y), body);
  else
    each_by_channels<1>(exec, image_pixels(y), image_channels(y), body);
}

template <>
struct Kernel<OpKind::group_norm_stats> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<2>(image_pixels(c.ins[0]), image_channels(c.ins[0])); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& v = c.ins[0];
    const PixelsOf<T> x(v);
    const int64_t groups = GroupNormStatsAttrs::read(c.attrs).groups, channels = v.dims[1], size = channels / groups,
                  columns = image_channels(v);
    double* const sums = totals_in<2>(c.workspace, image_pixels(v), columns);
    sum_channels<2, T>(exec, image_pixels(v), columns, has_wide_pixels<T>(v), c.workspace, GroupMomentTerm<T>{x, uint32_t(size)},
                       PutTotals<2>{sums, uint32_t(columns)});
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
      const double mean = double(float(x.at(b, 0, 0)[g * size])) + sum / count, positive = squares > 0 ? squares : 0;
      float* const row = stats + b * stride + g;
      row[0] = float(mean);
      row[groups] = float(positive);
      row[2 * groups] = float(mean - double(row[0]));
      row[3 * groups] = float(positive - double(row[groups]));
    });
  }
};

/// `gamma` and `beta` may be null.
struct GroupNormOf {
  GroupMoments moments;
  const float *gamma, *beta;
  SPILLWAY_BOTH NormAt at(uint32_t b, uint32_t ch) const {
    const Moments m = moments.of(b, ch);
    return {float(m.mean), float(gamma ? m.rstd * double(gamma[ch]) : m.rstd), beta ? beta[ch] : 0.0f};
  }
  SPILLWAY_BOTH float of(const NormAt& k, const float* x) const { return k.z(x[0] - k.mean); }
};

template <>
struct Kernel<OpKind::group_norm_apply> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const GroupMoments moments(c.ins[1], GroupNormApplyAttrs::read(c.attrs), c.ins[0].dims[1]);
    map_by_image<T, 1>(exec, c.outs[0], {&c.ins[0]},
                       GroupNormOf{moments, c.n_ins > 2 ? floats(c.ins[2]) : nullptr, c.n_ins > 2 ? floats(c.ins[3]) : nullptr});
  }
};

/// Nothing stood behind the norm.
struct OpenGroupGate {
  GroupMoments moments;
  SPILLWAY_BOTH OpenGate::At at(uint32_t b, uint32_t ch) const { return {float(moments.of(b, ch).mean)}; }
  SPILLWAY_BOTH float passed(const OpenGate::At&, float, float dy, uint32_t) const { return dy; }
};

template <class T>
struct GroupGradientTerm {
  using Part = float;
  PixelsOf<T> x, dy;
  OpenGroupGate gate;
  SPILLWAY_BOTH OpenGate::At at(uint32_t column) const { return gate.at(column / x.channels, column % x.channels); }
  template <int LANES>
  SPILLWAY_BOTH InImage start(uint32_t column) const {
    return image_of(x, column);
  }
  template <int LANES, class Of>
  SPILLWAY_BOTH void add(const Of& of, InImage start, uint32_t pixel, uint32_t, float (&sum)[LANES][2]) const {
    float values[LANES], gradients[LANES];
    fetch<LANES>(x.at(start.pixel + pixel) + start.channel, values);
    fetch<LANES>(dy.at(start.pixel + pixel) + start.channel, gradients);
    add_gradients<LANES>(gate, of, values, gradients, 0, sum);
  }
};

template <>
struct Kernel<OpKind::group_norm_bwd_reduce> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<2>(image_pixels(c.ins[0]), image_channels(c.ins[0])); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View &v = c.ins[0], &gradient = c.ins[1];
    const Pixels of_images(c.outs[0]);
    const GroupMoments moments(c.ins[2], GroupNormBwdReduceAttrs::read(c.attrs), v.dims[1]);
    const uint32_t columns = uint32_t(image_channels(v)), channels = uint32_t(v.dims[1]), images = uint32_t(v.dims[0]);
    double* const sums = totals_in<2>(c.workspace, image_pixels(v), columns);
    const auto finish = [=] SPILLWAY_BOTH(uint32_t column, const double* sum) {
      const uint32_t b = column / channels, ch = column % channels;
      const double products = sum[0] * moments.of(b, ch).rstd;
      float* const row = of_images.at(b, 0, 0);
      row[ch] = float(products);
      row[channels + ch] = float(sum[1]);
      sums[column] = products;
      sums[columns + column] = sum[1];
    };
    sum_channels<2, T>(exec, image_pixels(v), columns, has_wide_pixels<T>(v) && has_wide_pixels<T>(gradient), c.workspace,
                       GroupGradientTerm<T>{PixelsOf<T>(v), PixelsOf<T>(gradient), {moments}}, finish);
    if (c.n_outs == 1) return;
    float *const dgamma = floats(c.outs[1]), *const dbeta = c.n_outs > 2 ? floats(c.outs[2]) : nullptr;
    exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) {
      double products = 0, plain = 0;
      for (uint32_t b = 0; b < images; b++) {
        products += sums[b * channels + ch];
        plain += sums[columns + b * channels + ch];
      }
      dgamma[ch] = float(products);
      if (dbeta) dbeta[ch] = float(plain);
    });
  }
};

/// From two sums for each image and group.
struct GroupGradient {
  GroupMoments moments;
  const float* gamma;  // may be null
  const double* of_groups;
  SPILLWAY_BOTH NormGradientAt at(uint32_t b, uint32_t ch) const {
    const Moments m = moments.of(b, ch);
    const double* const sums = of_groups + 2 * (b * moments.groups + ch / moments.size);
    // dx = rstd·(gamma·dy - (plain + (x - mean)·rstd·products)/count)
    return {float(m.mean), float(gamma ? m.rstd * double(gamma[ch]) : m.rstd), float(m.rstd * m.rstd * sums[0] * moments.share),
            float(m.rstd * sums[1] * moments.share)};
  }
  SPILLWAY_BOTH float of(const NormGradientAt& k, const float* v) const { return k.scale * v[1] - k.offset - (v[0] - k.mean) * k.tilt; }
};

template <>
struct Kernel<OpKind::group_norm_bwd_data> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    return 2 * c.ins[0].dims[0] * GroupNormBwdDataAttrs::read(c.attrs).groups * int64_t(sizeof(double));
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels of_images(c.ins[3]);
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
    map_by_image<T, 2>(exec, c.outs[0], {&c.ins[0], &c.ins[1]}, GroupGradient{moments, gamma, of_groups});
  }
};

}  // namespace spillway::cuda
