// Batch norm in parts: statistics, apply, the two halves of the backward, the frozen forms, the running averages.
#include <algorithm>

#include "ref/batch_moments.hpp"

namespace spillway::ref {
namespace {

template <class T>
Moments running_moments(const View& mean, const View& variance, int64_t channel, double eps) {
  return {double(Tensor<T>(mean)[channel]), 1.0 / std::sqrt(double(Tensor<T>(variance)[channel]) + eps)};
}

struct BnStats {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]);
    const ops::Statistics<T> stats(c.outs[0]);
    const int64_t channels = c.ins[0].dims[1], first = c.ins[0].origin[1];
    const double count = double(ops::pixels(c.ins[0]));
    for (int64_t ch = 0; ch < channels; ch++) {
      double sum = 0, squares = 0;
      each_pixel(c.ins[0], [&](int64_t b, int64_t h, int64_t w) { sum += double(x.global(b, first + ch, h, w)); });
      const double mean = sum / count;
      each_pixel(c.ins[0], [&](int64_t b, int64_t h, int64_t w) {
        const double deviation = double(x.global(b, first + ch, h, w)) - mean;
        squares += deviation * deviation;
      });
      stats.put(ch, mean, squares);
    }
  }
};

struct BnApply {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnApplyAttrs::read(c.attrs);
    const Tensor<T> x(c.ins[0]), gamma(c.ins[2]), beta(c.ins[3]), y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const int64_t local = ch - c.outs[0].origin[1];
      const Moments m = batch_moments<T>(c.ins[1], local, a.count, a.eps);
      y.global(b, ch, h, w) = T((double(x.global(b, ch, h, w)) - m.mean) * m.rstd * double(gamma[local]) + double(beta[local]));
    });
  }
};

/// dgamma and dbeta of a channel, summed over the view.
template <class T>
void reduce_channel(const KernelCall& c, int64_t channel, Moments m) {
  const Tensor<T> x(c.ins[0]), dy(c.ins[1]);
  const int64_t global = channel + c.ins[0].origin[1];
  double dgamma = 0, dbeta = 0;
  each_pixel(c.ins[0], [&](int64_t b, int64_t h, int64_t w) {
    const double g = double(dy.global(b, global, h, w));
    dgamma += g * (double(x.global(b, global, h, w)) - m.mean) * m.rstd;
    dbeta += g;
  });
  Tensor<T>(c.outs[0])[channel] = T(dgamma);
  Tensor<T>(c.outs[1])[channel] = T(dbeta);
}

struct BnBackwardReduce {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnBwdReduceAttrs::read(c.attrs);
    for (int64_t ch = 0; ch < c.ins[0].dims[1]; ch++) reduce_channel<T>(c, ch, batch_moments<T>(c.ins[2], ch, a.count, a.eps));
  }
};

struct BnBackwardData {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnBwdDataAttrs::read(c.attrs);
    const double count = double(a.count);
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), gamma(c.ins[3]), dgamma(c.ins[4]), dbeta(c.ins[5]), dx(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const int64_t local = ch - c.outs[0].origin[1];
      const Moments m = batch_moments<T>(c.ins[2], local, count, a.eps);
      const double normal = (double(x.global(b, ch, h, w)) - m.mean) * m.rstd;
      const double centred = double(dy.global(b, ch, h, w)) - double(dbeta[local]) / count - normal * double(dgamma[local]) / count;
      dx.global(b, ch, h, w) = T(double(gamma[local]) * m.rstd * centred);
    });
  }
};

struct BnReluApply {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnReluApplyAttrs::read(c.attrs);
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const auto r = Rectified::of<T>(c, ch - c.outs[0].origin[1], 1, double(a.count), a.eps, a.slope);
      const double value = double(x.global(b, ch, h, w));
      y.global(b, ch, h, w) = T(r(value, r.normal(value) * r.gamma + r.beta));
    });
  }
};

struct BnReluBackwardReduce {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnReluBwdReduceAttrs::read(c.attrs);
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]);
    for (int64_t ch = 0; ch < c.ins[0].dims[1]; ch++) {
      const auto r = Rectified::of<T>(c, ch, 2, double(a.count), a.eps, a.slope);
      const int64_t global = ch + c.ins[0].origin[1];
      double dgamma = 0, dbeta = 0;
      each_pixel(c.ins[0], [&](int64_t b, int64_t h, int64_t w) {
        const double value = double(x.global(b, global, h, w)), dz = r(value, double(dy.global(b, global, h, w)));
        dgamma += dz * r.normal(value);
        dbeta += dz;
      });
      Tensor<T>(c.outs[0])[ch] = T(dgamma);
      Tensor<T>(c.outs[1])[ch] = T(dbeta);
    }
  }
};

struct BnReluBackwardData {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnReluBwdDataAttrs::read(c.attrs);
    const double count = double(a.count);
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dgamma(c.ins[5]), dbeta(c.ins[6]), dx(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const int64_t local = ch - c.outs[0].origin[1];
      const auto r = Rectified::of<T>(c, local, 2, count, a.eps, a.slope);
      const double value = double(x.global(b, ch, h, w)), dz = r(value, double(dy.global(b, ch, h, w)));
      dx.global(b, ch, h, w) = T(r.gamma * r.rstd * (dz - double(dbeta[local]) / count - r.normal(value) * double(dgamma[local]) / count));
    });
  }
};

struct BnFrozen {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnFrozenAttrs::read(c.attrs);
    const Tensor<T> x(c.ins[0]), gamma(c.ins[3]), beta(c.ins[4]), y(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const int64_t local = ch - c.outs[0].origin[1];
      const Moments m = running_moments<T>(c.ins[1], c.ins[2], local, a.eps);
      y.global(b, ch, h, w) = T((double(x.global(b, ch, h, w)) - m.mean) * m.rstd * double(gamma[local]) + double(beta[local]));
    });
  }
};

struct BnFrozenBackwardData {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnFrozenBwdDataAttrs::read(c.attrs);
    const Tensor<T> dy(c.ins[0]), variance(c.ins[1]), gamma(c.ins[2]), dx(c.outs[0]);
    each_element(c.outs[0], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const int64_t local = ch - c.outs[0].origin[1];
      const double rstd = 1.0 / std::sqrt(double(variance[local]) + a.eps);
      dx.global(b, ch, h, w) = T(double(dy.global(b, ch, h, w)) * rstd * double(gamma[local]));
    });
  }
};

struct BnFrozenBackwardReduce {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnFrozenBwdReduceAttrs::read(c.attrs);
    for (int64_t ch = 0; ch < c.ins[0].dims[1]; ch++) reduce_channel<T>(c, ch, running_moments<T>(c.ins[2], c.ins[3], ch, a.eps));
  }
};

struct BnRunning {
  template <class T>
  static void run(const KernelCall& c) {
    if (c.n_ins > 3 && *static_cast<const T*>(c.ins[3].data) == 0) return;
    const auto a = BnRunningAttrs::read(c.attrs);
    const ops::Statistics<T> stats(c.ins[0]);
    const Tensor<T> mean(c.ins[1]), variance(c.ins[2]);
    const int64_t channels = c.ins[1].dims[0];
    for (int64_t ch = 0; ch < channels; ch++) {
      const double unbiased = stats.squares(ch) / double(std::max<int64_t>(1, a.count - 1));
      mean[ch] = T((1 - a.momentum) * double(mean[ch]) + a.momentum * stats.mean(ch));
      variance[ch] = T((1 - a.momentum) * double(variance[ch]) + a.momentum * unbiased);
    }
  }
};

}  // namespace

const KernelEntry bn_stats = entry<BnStats>();
const KernelEntry bn_apply = entry<BnApply>();
const KernelEntry bn_masked_apply = entry<BnApply>();
const KernelEntry bn_bwd_reduce = entry<BnBackwardReduce>();
const KernelEntry bn_bwd_data = entry<BnBackwardData>();
const KernelEntry bn_relu_apply = entry<BnReluApply>();
const KernelEntry bn_relu_bwd_reduce = entry<BnReluBackwardReduce>();
const KernelEntry bn_relu_bwd_data = entry<BnReluBackwardData>();
const KernelEntry bn_frozen = entry<BnFrozen>();
const KernelEntry bn_frozen_bwd_data = entry<BnFrozenBackwardData>();
const KernelEntry bn_frozen_bwd_reduce = entry<BnFrozenBackwardReduce>();
const KernelEntry bn_running = entry<BnRunning>();

}  // namespace spillway::ref
