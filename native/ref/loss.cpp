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

/// Calls f(b, h, w, label) for each pixel whose label is taken, in local coordinates.
template <class T, class F>
void each_labelled(const KernelCall& c, const ops::Xent<T>& xent, F f) {
  const View& x = c.ins[0];
  const Tensor<int32_t> labels(c.ins[1]);
  for (int64_t b = 0; b < x.dims[0]; b++)
    for (int64_t h = 0; h < x.dims[2]; h++)
      for (int64_t w = 0; w < x.dims[3]; w++)
        if (const int32_t label = labels.at(b, 0, h, w); xent.takes(label, x.dims[1])) f(b, h, w, label);
}

struct CountLabels {
  template <class T>
  static void run(const KernelCall& c) {
    const int64_t ignored = CountLabelsAttrs::read(c.attrs).ignore_index;
    const Tensor<int32_t> labels(c.ins[0]);
    int64_t count = 0;
    each_pixel(c.ins[0], [&](int64_t b, int64_t h, int64_t w) { count += labels.global(b, 0, h, w) != ignored; });
    const Tensor<T> counted(c.outs[0]);
    counted[0] = T(std::fmod(double(count), ops::COUNT_PIECE));
    counted[1] = T(std::floor(double(count) / ops::COUNT_PIECE));
  }
};

struct SoftmaxXent {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]);
    const ops::Xent<T> xent(c);
    double sum = 0;
    each_labelled(c, xent, [&](int64_t b, int64_t h, int64_t w, int32_t label) {
      const Softmax s = softmax_of(x, b, h, w);
      sum += s.top + std::log(s.total) - double(x.at(b, label, h, w));
    });
    Tensor<T>(c.outs[0])[0] = T(xent.weight * sum / xent.number());
  }
};

struct SoftmaxXentBackward {
  template <class T>
  static void run(const KernelCall& call) {
    const Tensor<T> x(call.ins[0]), dx(call.outs[0]);
    const ops::Xent<T> xent(call);
    const double scale = xent.scale();
    each_element(call.outs[0], [&](int64_t b, int64_t c, int64_t h, int64_t w) { dx.global(b, c, h, w) = T(0); });
    each_labelled(call, xent, [&](int64_t b, int64_t h, int64_t w, int32_t label) {
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
const KernelEntry count_labels = entry<CountLabels>();
const KernelEntry softmax_xent_counted = entry<SoftmaxXent>();
const KernelEntry softmax_xent_counted_bwd = entry<SoftmaxXentBackward>();

#define SPILLWAY_LOSS_ENTRY(kind)                                      \
  const KernelEntry kind = entry<ElementLoss<ops::element_loss::kind>>(); \
  const KernelEntry kind##_bwd = entry<ElementLossBackward<ops::element_loss::kind>>();
SPILLWAY_ELEMENT_LOSSES(SPILLWAY_LOSS_ENTRY)
#undef SPILLWAY_LOSS_ENTRY

}  // namespace spillway::ref
