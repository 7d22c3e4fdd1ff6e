// Batch norm, sum with a shortcut and rectifier, with a bit for each element that says on which side of zero the sum was.
#include "ops/residualnorm.hpp"

#include "ref/batch_moments.hpp"

namespace spillway::ref {
namespace {

/// Which elements passed the rectifier.
struct Signs {
  Tensor<int32_t> words;
  int64_t first;
  Signs(const View& signs, const View& of) : words(signs), first(of.origin[1]) {}
  bool operator()(int64_t b, int64_t ch, int64_t h, int64_t w) const {
    const int64_t local = ch - first;
    return uint32_t(words.global(b, local / ops::SIGNS_PER_WORD, h, w)) >> (local % ops::SIGNS_PER_WORD) & 1;
  }
};

struct BnAddReluApply {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnAddReluApplyAttrs::read(c.attrs);
    const Tensor<T> x(c.ins[0]), shortcut(c.ins[1]), gamma(c.ins[3]), beta(c.ins[4]), y(c.outs[0]);
    const Tensor<int32_t> signs(c.outs[1]);
    const int64_t first = c.ins[0].origin[1], channels = c.ins[0].dims[1];
    each_element(c.outs[1], [&](int64_t b, int64_t word, int64_t h, int64_t w) {
      uint32_t bits = 0;
      const int64_t from = word * ops::SIGNS_PER_WORD;
      for (int64_t ch = from; ch < std::min(channels, from + ops::SIGNS_PER_WORD); ch++) {
        const Moments m = batch_moments<T>(c.ins[2], ch, double(a.count), a.eps);
        const double normal = (double(x.global(b, first + ch, h, w)) - m.mean) * m.rstd * double(gamma[ch]) + double(beta[ch]);
        const double z = normal + double(shortcut.global(b, first + ch, h, w));
        const bool passes = !(z <= 0);
        y.global(b, first + ch, h, w) = T(rectified(a.slope, passes, z));
        bits |= uint32_t(passes) << (ch - from);
      }
      signs.global(b, word, h, w) = int32_t(bits);
    });
  }
};

struct BnAddReluBackwardReduce {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnAddReluBwdReduceAttrs::read(c.attrs);
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]);
    const Signs passed(c.ins[2], c.ins[0]);
    for (int64_t ch = 0; ch < c.ins[0].dims[1]; ch++) {
      const Moments m = batch_moments<T>(c.ins[3], ch, double(a.count), a.eps);
      const int64_t global = ch + c.ins[0].origin[1];
      double dgamma = 0, dbeta = 0;
      each_pixel(c.ins[0], [&](int64_t b, int64_t h, int64_t w) {
        const double dz = rectified(a.slope, passed(b, global, h, w), double(dy.global(b, global, h, w)));
        dgamma += dz * (double(x.global(b, global, h, w)) - m.mean) * m.rstd;
        dbeta += dz;
      });
      Tensor<T>(c.outs[0])[ch] = T(dgamma);
      Tensor<T>(c.outs[1])[ch] = T(dbeta);
    }
  }
};

struct BnAddReluBackwardData {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = BnAddReluBwdDataAttrs::read(c.attrs);
    const double count = double(a.count);
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), gamma(c.ins[4]), dgamma(c.ins[5]), dbeta(c.ins[6]), dshortcut(c.outs[0]), dx(c.outs[1]);
    const Signs passed(c.ins[2], c.ins[0]);
    each_element(c.outs[1], [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
      const int64_t local = ch - c.ins[0].origin[1];
      const Moments m = batch_moments<T>(c.ins[3], local, count, a.eps);
      const double dz = rectified(a.slope, passed(b, ch, h, w), double(dy.global(b, ch, h, w)));
      const double normal = (double(x.global(b, ch, h, w)) - m.mean) * m.rstd;
      dshortcut.global(b, ch, h, w) = T(dz);
      dx.global(b, ch, h, w) =
          T(double(gamma[local]) * m.rstd * (dz - double(dbeta[local]) / count - normal * double(dgamma[local]) / count));
    });
  }
};

}  // namespace

const KernelEntry bn_add_relu_apply = entry<BnAddReluApply>();
const KernelEntry bn_add_relu_bwd_reduce = entry<BnAddReluBackwardReduce>();
const KernelEntry bn_add_relu_bwd_data = entry<BnAddReluBackwardData>();

}  // namespace spillway::ref
