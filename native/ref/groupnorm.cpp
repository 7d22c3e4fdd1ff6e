// Group norm in parts: statistics of each image's groups, apply, the two halves of the backward.
#include "ops/groupnorm.hpp"

#include <cmath>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Calls f(h, w) for each pixel of the view, in whole-value coordinates.
template <class F>
void each_place(const View& v, F f) {
  for (int64_t h = ops::lower(v, 2); h < ops::upper(v, 2); h++)
    for (int64_t w = ops::lower(v, 3); w < ops::upper(v, 3); w++) f(h, w);
}

/// The mean and reciprocal deviation that normalise channel c of an image (counted in the view).
struct Moments {
  double mean, rstd;
};

template <class T>
Moments group_moments(const View& stats, int64_t image, int64_t group, const GroupNormApplyAttrs& a) {
  const ops::Statistics<T> s(stats, image);
  return {s.mean(group), 1.0 / std::sqrt(s.squares(group) / double(a.count) + a.eps)};
}

struct GroupNormStats {
  template <class T>
  static void run(const KernelCall& call) {
    const View& view = call.ins[0];
    const Tensor<T> x(view);
    const int64_t groups = GroupNormStatsAttrs::read(call.attrs).groups, size = view.dims[1] / groups;
    const double count = double(size * view.dims[2] * view.dims[3]);
    for (int64_t image = 0; image < view.dims[0]; image++)
      for (int64_t g = 0; g < groups; g++) {
        const auto sum = [&](auto term) {
          double total = 0;
          for (int64_t c = g * size; c < (g + 1) * size; c++)
            each_place(view, [&](int64_t h, int64_t w) { total += term(double(x.global(image + view.origin[0], c, h, w))); });
          return total;
        };
        const double mean = sum([](double v) { return v; }) / count;
        const double squares = sum([mean](double v) { return (v - mean) * (v - mean); });
        ops::Statistics<T>(call.outs[0], image).put(g, mean, squares);
      }
  }
};

struct GroupNormApply {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = GroupNormApplyAttrs::read(call.attrs);
    const View& view = call.outs[0];
    const Tensor<T> x(call.ins[0]), y(view);
    const int64_t size = view.dims[1] / a.groups;
    each_element(view, [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      const Moments m = group_moments<T>(call.ins[1], b - view.origin[0], c / size, a);
      const double scale = call.n_ins > 2 ? double(Tensor<T>(call.ins[2])[c]) : 1,
                   shift = call.n_ins > 2 ? double(Tensor<T>(call.ins[3])[c]) : 0;
      y.global(b, c, h, w) = T((double(x.global(b, c, h, w)) - m.mean) * m.rstd * scale + shift);
    });
  }
};

struct GroupNormBackwardReduce {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = GroupNormBwdReduceAttrs::read(call.attrs);
    const View& view = call.ins[0];
    const Tensor<T> x(view), dy(call.ins[1]), sums(call.outs[0]);
    const int64_t channels = view.dims[1], size = channels / a.groups;
    for (int64_t c = 0; c < channels; c++) {
      double dgamma = 0, dbeta = 0;
      for (int64_t image = 0; image < view.dims[0]; image++) {
        const Moments m = group_moments<T>(call.ins[2], image, c / size, a);
        double products = 0, plain = 0;
        each_place(view, [&](int64_t h, int64_t w) {
          const double g = double(dy.global(image + view.origin[0], c, h, w));
          products += g * (double(x.global(image + view.origin[0], c, h, w)) - m.mean) * m.rstd;
          plain += g;
        });
        sums.at(image, c, 0, 0) = T(products);
        sums.at(image, channels + c, 0, 0) = T(plain);
        dgamma += products;
        dbeta += plain;
      }
      if (call.n_outs > 1) Tensor<T>(call.outs[1])[c] = T(dgamma);
      if (call.n_outs > 2) Tensor<T>(call.outs[2])[c] = T(dbeta);
    }
  }
};

struct GroupNormBackwardData {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = GroupNormBwdDataAttrs::read(call.attrs);
    const View& view = call.outs[0];
    const Tensor<T> x(call.ins[0]), dy(call.ins[1]), sums(call.ins[3]), dx(view);
    const int64_t channels = view.dims[1], size = channels / a.groups;
    const auto scale = [&](int64_t c) { return call.n_ins > 4 ? double(Tensor<T>(call.ins[4])[c]) : 1.0; };
    for (int64_t image = 0; image < view.dims[0]; image++)
      for (int64_t g = 0; g < a.groups; g++) {
        const Moments m = group_moments<T>(call.ins[2], image, g, a);
        double products = 0, plain = 0;
        for (int64_t c = g * size; c < (g + 1) * size; c++) {
          products += scale(c) * double(sums.at(image, c, 0, 0));
          plain += scale(c) * double(sums.at(image, channels + c, 0, 0));
        }
        const int64_t b = image + view.origin[0];
        for (int64_t c = g * size; c < (g + 1) * size; c++)
          each_place(view, [&](int64_t h, int64_t w) {
            const double normal = (double(x.global(b, c, h, w)) - m.mean) * m.rstd;
            dx.global(b, c, h, w) = T(m.rstd * (scale(c) * double(dy.global(b, c, h, w)) - (plain + normal * products) / double(a.count)));
          });
      }
  }
};

}  // namespace

const KernelEntry group_norm_stats = entry<GroupNormStats>();
const KernelEntry group_norm_apply = entry<GroupNormApply>();
const KernelEntry group_norm_bwd_reduce = entry<GroupNormBackwardReduce>();
const KernelEntry group_norm_bwd_data = entry<GroupNormBackwardData>();

}  // namespace spillway::ref
