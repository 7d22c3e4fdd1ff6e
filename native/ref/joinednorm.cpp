// Batch norm of values that stand side by side along C, part by part.
#include "ops/joinednorm.hpp"

#include "ref/batch_moments.hpp"

namespace spillway::ref {
namespace {

struct JoinStats {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> joined(c.outs[0]);
    int64_t to = 0;
    for (uint32_t i = 0; i < c.n_ins; i++) {
      const Tensor<T> part(c.ins[i]);
      for (int64_t row = 0; row < 4; row++)
        for (int64_t ch = 0; ch < c.ins[i].dims[1]; ch++) joined.at(row, to + ch, 0, 0) = part.at(row, ch, 0, 0);
      to += c.ins[i].dims[1];
    }
  }
};

/// Calls f(value, channel among all, b, h, w) for each element of the parts, places counted inside the views.
template <class T, class F>
void each_joined(const ops::Parts& parts, F f) {
  int64_t from = 0;
  for (uint32_t i = 0; i < parts.count; i++) {
    const View& v = parts[i];
    const Tensor<T> part(v);
    for (int64_t ch = 0; ch < v.dims[1]; ch++)
      for (int64_t b = 0; b < v.dims[0]; b++)
        for (int64_t h = 0; h < v.dims[2]; h++)
          for (int64_t w = 0; w < v.dims[3]; w++) f(double(part.at(b, ch, h, w)), from + ch, b, h, w);
    from += v.dims[1];
  }
}

struct JoinedNorm {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = JoinedNormAttrs::read(c.attrs);
    const Tensor<T> y(c.outs[0]);
    each_joined<T>(ops::parts_of(c, 3), [&](double x, int64_t ch, int64_t b, int64_t h, int64_t w) {
      const auto r = Rectified::of<T>(c, ch, 0, double(a.count), a.eps, a.slope);
      y.at(b, ch, h, w) = T(r(x, r.normal(x) * r.gamma + r.beta));
    });
  }
};

struct JoinedNormBackwardReduce {
  static int64_t scratch_doubles(const KernelCall& c) { return 2 * c.ins[0].dims[1]; }
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = JoinedNormBwdReduceAttrs::read(c.attrs);
    const Tensor<T> dy(c.ins[0]);
    const int64_t channels = c.ins[0].dims[1];
    double* const sums = static_cast<double*>(c.workspace);
    std::fill_n(sums, 2 * channels, 0.0);
    each_joined<T>(ops::parts_of(c, 4), [&](double x, int64_t ch, int64_t b, int64_t h, int64_t w) {
      const auto r = Rectified::of<T>(c, ch, 1, double(a.count), a.eps, a.slope);
      const double dz = r(x, double(dy.at(b, ch, h, w)));
      sums[ch] += dz * r.normal(x);
      sums[channels + ch] += dz;
    });
    for (uint32_t i = 0; i < 2; i++)
      for (int64_t ch = 0; ch < channels; ch++) Tensor<T>(c.outs[i])[ch] = T(sums[i * channels + ch]);
  }
};

struct JoinedNormBackwardData {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = JoinedNormBwdDataAttrs::read(c.attrs);
    const double count = double(a.count);
    const Tensor<T> dy(c.ins[0]), dgamma(c.ins[4]), dbeta(c.ins[5]), onto(c.ins[6]), dx(c.outs[0]);
    each_joined<T>(ops::parts_of(c, uint32_t(6 + a.onto)), [&](double x, int64_t ch, int64_t b, int64_t h, int64_t w) {
      const auto r = Rectified::of<T>(c, ch, 1, count, a.eps, a.slope);
      const double centred = r(x, double(dy.at(b, ch, h, w))) - double(dbeta[ch]) / count - r.normal(x) * double(dgamma[ch]) / count;
      dx.at(b, ch, h, w) = T(r.gamma * r.rstd * centred + (a.onto ? double(onto.at(b, ch, h, w)) : 0.0));
    });
  }
};

}  // namespace

const KernelEntry join_stats = entry<JoinStats>();
const KernelEntry joined_norm = entry<JoinedNorm>();
const KernelEntry joined_norm_bwd_reduce = entry<JoinedNormBackwardReduce>();
const KernelEntry joined_norm_bwd_data = entry<JoinedNormBackwardData>();

}  // namespace spillway::ref
