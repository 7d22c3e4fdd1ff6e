// Batch norm of values that stand side by side along C, read where they lie. In: at most MOST_PARTS of them at a time, as many as
// a kernel's parameters hold. An item owns an element of what they are together, and finds the part that has its channel.
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

  /// `channel` is counted from `first`.
  SPILLWAY_BOTH float at(uint32_t pixel, uint32_t channel) const {
    uint32_t lo = 0, hi = count;
    while (hi - lo > 1) {
      const uint32_t middle = (lo + hi) / 2;
      if (from[middle] <= channel) lo = middle;
      else hi = middle;
    }
    return parts[lo].at(pixel)[channel - from[lo]];
  }
};

/// Calls f(parts) for one group of parts after the other.
template <class T, class F>
void each_group(const ops::Parts& parts, F f) {
  PartsBeside<T> group{};
  for (uint32_t i = 0; i < parts.count; i++) {
    group.parts[group.count] = PixelsOf<T>(parts[i]);
    group.from[group.count++] = group.channels;
    group.channels += uint32_t(parts[i].dims[1]);
    if (group.count < MOST_PARTS && i + 1 < parts.count) continue;
    group.from[group.count] = group.channels;
    f(static_cast<const PartsBeside<T>&>(group));
    group.first += group.channels;
    group.channels = group.count = 0;
  }
}

/// f.at(channel) of all channels, at the head of `space`: what has many parts is read by items that have one element each.
template <class At, class Exec, class F>
const At* tabulated(Exec& exec, int64_t channels, F f, void* space) {
  At* const table = static_cast<At*>(space);
  exec.each(channels, [=] SPILLWAY_BOTH(uint32_t ch) { table[ch] = f.at(ch); });
  return table;
}

template <>
struct Kernel<OpKind::join_stats> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Pixels joined(c.outs[0]);  // the four rows of statistics stand for pixels
    each_group<float>(ops::parts_of(c, 0), [&](const PartsBeside<float>& x) {
      exec.each(4 * x.channels, [=] SPILLWAY_BOTH(uint32_t i) {
        const uint32_t row = i / x.channels, ch = i % x.channels;
        joined.at(row)[x.first + ch] = x.at(row, ch);
      });
    });
  }
};

template <>
struct Kernel<OpKind::joined_norm> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return c.ins[0].dims[1] * int64_t(sizeof(NormAt)); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = JoinedNormAttrs::read(c.attrs);
    const RectifiedNorm norm{norm_of(c, BatchMoments(c.ins[0], double(a.count), a.eps), 1), float(a.slope)};
    const NormAt* const at = tabulated<NormAt>(exec, c.outs[0].dims[1], norm, c.workspace);
    const PixelsOf<T> y(c.outs[0]);
    each_group<T>(ops::parts_of(c, 3), [&](const PartsBeside<T>& x) {
      exec.each(ops::pixels(c.outs[0]) * x.channels, [=] SPILLWAY_BOTH(uint32_t i) {
        const uint32_t pixel = i / x.channels, ch = i % x.channels, of_all = x.first + ch;
        const float value = x.at(pixel, ch);
        y.at(pixel)[of_all] = norm.of(at[of_all], &value);
      });
    });
  }
};

template <>
struct Kernel<OpKind::joined_norm_bwd_reduce> : OwnKernel {
  static int64_t sums(const KernelCall& c) {
    int64_t most = 0;
    each_group<float>(ops::parts_of(c, 4), [&](const PartsBeside<float>& x) { most = std::max(most, sums_bytes<2>(ops::pixels(c.ins[0]), x.channels)); });
    return most;
  }
  static int64_t workspace(const KernelCall& c) { return sums(c) + c.ins[0].dims[1] * int64_t(sizeof(NormAt)); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = JoinedNormBwdReduceAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[1], double(a.count), a.eps);
    const RectifiedNorm norm{norm_of(c, moments, 2), float(a.slope)};
    const NormAt* const at = tabulated<NormAt>(exec, c.ins[0].dims[1], norm, static_cast<char*>(c.workspace) + sums(c));
    const PixelsOf<T> dy(c.ins[0]);
    float *const dgamma = floats(c.outs[0]), *const dbeta = floats(c.outs[1]);
    each_group<T>(ops::parts_of(c, 4), [&](const PartsBeside<T>& x) {
      const auto term = [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t ch, double* sum) {
        const NormAt k = at[x.first + ch];
        const float deviation = x.at(pixel, ch) - k.mean;
        const double dz = double(norm.passed(k, deviation, dy.at(pixel)[x.first + ch], 0));
        sum[0] += double(deviation) * dz;
        sum[1] += dz;
      };
      const auto finish = [=] SPILLWAY_BOTH(uint32_t ch, const double* sum) {
        dgamma[x.first + ch] = float(sum[0] * moments.of(x.first + ch).rstd);
        dbeta[x.first + ch] = float(sum[1]);
      };
      sum_columns<2, 1>(exec, ops::pixels(c.ins[0]), x.channels, c.workspace, PlainTerm<2, decltype(term)>{term}, finish);
    });
  }
};

template <>
struct Kernel<OpKind::joined_norm_bwd_data> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return c.ins[0].dims[1] * int64_t(sizeof(RectifiedGradientAt)); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = JoinedNormBwdDataAttrs::read(c.attrs);
    const BatchMoments moments(c.ins[1], double(a.count), a.eps);
    const RectifiedGradient g = rectified_gradient(c, moments, 2, float(a.slope));
    const RectifiedGradientAt* const at = tabulated<RectifiedGradientAt>(exec, c.ins[0].dims[1], g, c.workspace);
    const PixelsOf<T> dy(c.ins[0]), onto(c.ins[6]), dx(c.outs[0]);
    const bool added = a.onto != 0;
    each_group<T>(ops::parts_of(c, uint32_t(6 + a.onto)), [&](const PartsBeside<T>& x) {
      exec.each(ops::pixels(c.outs[0]) * x.channels, [=] SPILLWAY_BOTH(uint32_t i) {
        const uint32_t pixel = i / x.channels, ch = i % x.channels, of_all = x.first + ch;
        const float values[] = {x.at(pixel, ch), dy.at(pixel)[of_all]}, gradient = g.of(at[of_all], values);
        dx.at(pixel)[of_all] = added ? gradient + onto.at(pixel)[of_all] : gradient;
      });
    });
  }
};

}  // namespace spillway::cuda
