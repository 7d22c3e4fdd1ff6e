// Queries and keys of unit length, and their gradients.
#include "ops/unitheads.hpp"

#include <vector>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// The channels of one head in one pixel, as doubles.
template <class T>
std::vector<double> channels(const Tensor<T>& t, int64_t b, int64_t first, int64_t count, int64_t h, int64_t w) {
  std::vector<double> all;
  for (int64_t e = 0; e < count; e++) all.push_back(double(t.global(b, first + e, h, w)));
  return all;
}

double inverse_of(const std::vector<double>& x) {
  double sum = 1e-24;
  for (const double e : x) sum += e * e;
  return 1 / std::sqrt(sum);
}

struct UnitHeads {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::UnitHeadsPlan plan(c);
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const T* const p = static_cast<T*>(c.ins[1].data);
    each_pixel(c.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      for (int64_t n = 0; n < plan.a.heads; n++)
        for (int64_t part = 0; part < 3; part++) {
          const int64_t first = plan.channel(part, n);
          const std::vector<double> own = channels(x, b, first, plan.head, h, w);
          const double factor = part == 2 ? 1 : inverse_of(own) * (part == 0 ? plan.scale(double(p[n])) : 1);
          for (int64_t e = 0; e < plan.head; e++) y.global(b, first + e, h, w) = T(own[size_t(e)] * factor);
        }
    });
  }
};

struct UnitHeadsBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::UnitHeadsPlan plan(c);
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    const T* const p = static_cast<T*>(c.ins[2].data);
    std::vector<double> sums(static_cast<size_t>(plan.a.heads));
    each_pixel(c.outs[0], [&](int64_t b, int64_t h, int64_t w) {
      for (int64_t n = 0; n < plan.a.heads; n++)
        for (int64_t part = 0; part < 3; part++) {
          const int64_t first = plan.channel(part, n);
          const std::vector<double> own = channels(x, b, first, plan.head, h, w), back = channels(dy, b, first, plan.head, h, w);
          const double inverse = inverse_of(own), scale = part == 0 ? plan.scale(double(p[n])) : 1;
          double product = 0;
          for (size_t e = 0; e < own.size(); e++) product += own[e] * inverse * back[e];
          if (part == 0 && !(double(p[n]) > plan.a.most)) sums[size_t(n)] += product * scale;
          for (size_t e = 0; e < own.size(); e++)
            dx.global(b, first + int64_t(e), h, w) = T(part == 2 ? back[e] : scale * inverse * (back[e] - own[e] * inverse * product));
        }
    });
    for (size_t n = 0; n < sums.size(); n++) static_cast<T*>(c.outs[1].data)[n] = T(sums[n]);
  }
};

}  // namespace

const KernelEntry unit_heads = entry<UnitHeads>();
const KernelEntry unit_heads_bwd = entry<UnitHeadsBackward>();

}  // namespace spillway::ref
