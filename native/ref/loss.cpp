// Softmax cross-entropy (per image and per pixel) and the losses per element, each with its gradient.
#include <cmath>
#include <limits>

#include "ops/loss.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Softmax of one pixel's channels: exp(x - top) / total.
struct Softmax {
  double top = -std::numeric_limits<double>::infinity(), total = 0;
};

template <class T>
Softmax softmax_of(const Tensor<T>& x, int64_t b, int64_t h, int64_t w) {
  Softmax s;
  for (int64_t c = 0; c < x.view().dims[1]; c++) s.top = std::max(s.top, double(x.at(b, c, h, w)));
  for (int64_t c = 0; c < x.view().dims[1]; c++) s.total += std::exp(double(x.at(b, c, h, w)) - s.top);
  return s;
}

/// Calls f(b, h, w, label) for each pixel whose label names a channel, in local coordinates.
template <class F>
void each_labelled(const View& x, const View& labels_view, F f) {
  const Tensor<int32_t> labels(labels_view);
  for (int64_t b = 0; b < x.dims[0]; b++)
    for (int64_t h = 0; h < x.dims[2]; h++)
      for (int64_t w = 0; w < x.dims[3]; w++)
        if (const int32_t label = labels.at(b, 0, h, w); label >= 0 && label < x.dims[1]) f(b, h, w, label);
}

struct SoftmaxXent {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]);
    double sum = 0;
    each_labelled(c.ins[0], c.ins[1], [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      const Softmax s = softmax_of(x, b, h, w);
      sum += s.top + std::log(s.total) - double(x.at(b, label, h, w));
    });
    const auto a = SoftmaxXentAttrs::read(c.attrs);
    Tensor<T>(c.outs[0])[0] = T(a.weight * sum / double(a.count));
  }
};

struct SoftmaxXentBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dx(call.outs[0]);
    const auto a = SoftmaxXentBwdAttrs::read(call.attrs);
    const double scale = a.weight / double(a.count);
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) { dx.global(b, c, h, w) = T(0); });
    each_labelled(call.ins[0], call.ins[1], [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      const Softmax s = softmax_of(x, b, h, w);
      for (int64_t c = 0; c < call.ins[0].dims[1]; c++)
        dx.at(b, c, h, w) = T((std::exp(double(x.at(b, c, h, w)) - s.top) / s.total - (c == label ? 1 : 0)) * scale);
    });
  }
};

/// Calls f(b, c, h, w, x, t) for each element, in whole-value coordinates.
template <class T, class F>
void each_compared(const KernelCall& call, double constant, F f) {
  const Tensor<T> x(call.ins[0]);
  each_element(call.ins[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) {
    f(b, c, h, w, double(x.global(b, c, h, w)), call.n_ins > 1 ? double(Tensor<T>(call.ins[1]).global(b, c, h, w)) : constant);
  });
}

template <class Loss>
struct ElementLoss {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = ops::ElementLossAttrs::read(call.attrs);
    const Loss loss = ops::loss_of<Loss>(call.attrs);
    double sum = 0;
    each_compared<T>(call, a.constant, [&](int64_t, int64_t, int64_t, int64_t, double x, double t) { sum += loss.value(x, t); });
    Tensor<T>(call.outs[0])[0] = T(a.weight * sum / double(a.count));
  }
};

template <class Loss>
struct ElementLossBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const auto a = ops::ElementLossAttrs::read(call.attrs);
    const Loss loss = ops::loss_of<Loss>(call.attrs);
    const Tensor<T> dx(call.outs[0]);
    each_compared<T>(call, a.constant, [&](int64_t b, int64_t c, int64_t h, int64_t w, double x, double t) {
      dx.global(b, c, h, w) = T(a.weight * loss.slope(x, t) / double(a.count));
    });
  }
};

}  // namespace

const KernelEntry softmax_xent = entry<SoftmaxXent>();
const KernelEntry softmax_xent_bwd = entry<SoftmaxXentBackward>();

#define SPILLWAY_LOSS_ENTRY(kind)                                      \
  const KernelEntry kind = entry<ElementLoss<ops::element_loss::kind>>(); \
  const KernelEntry kind##_bwd = entry<ElementLossBackward<ops::element_loss::kind>>();
SPILLWAY_ELEMENT_LOSSES(SPILLWAY_LOSS_ENTRY)
#undef SPILLWAY_LOSS_ENTRY

}  // namespace spillway::ref
