// Softmax cross-entropy (per image and per pixel) and the losses that compare element by element, each with its gradient.
// Sums are in double.
#pragma once
#include <cmath>
#include <cstddef>

#include "cuda/kernels/kernel.hpp"
#include "ops/loss.hpp"

namespace spillway::cuda {

/// The labels of the pixels of x, for any strides.
struct Labels {
  const int32_t* data;
  uint32_t height, width;
  int64_t stride_b, stride_h, stride_w;
  explicit Labels(const View& v)
      : data(static_cast<const int32_t*>(v.data)),
        height(uint32_t(v.dims[2])),
        width(uint32_t(v.dims[3])),
        stride_b(v.strides[0]),
        stride_h(v.strides[2]),
        stride_w(v.strides[3]) {}
  SPILLWAY_BOTH int64_t place(uint32_t pixel) const {
    const uint32_t w = pixel % width, row = pixel / width;
    return row / height * stride_b + row % height * stride_h + w * stride_w;
  }
  SPILLWAY_BOTH int32_t at(uint32_t pixel) const { return data[place(pixel)]; }
};

/// Softmax of one pixel's channels: exp(x - top) / total.
struct Softmax {
  float top;
  double total;
  template <class T>
  SPILLWAY_BOTH static Softmax of(const T* x, uint32_t channels) {
    Softmax s{-INFINITY, 0};
    for (uint32_t c = 0; c < channels; c++) s.top = x[c] > s.top ? float(x[c]) : s.top;
    for (uint32_t c = 0; c < channels; c++) s.total += double(expf(x[c] - s.top));
    return s;
  }
};

/// A pixel with this number of channels has a block of items, others have one item. Only the number of channels decides, so bits do not
/// depend on tiles.
constexpr uint32_t CHANNELS_OF_BLOCK = 256;

template <class T, class Body>
struct SoftmaxBlocks {
  static constexpr int PHASES = 7;
  static constexpr uint32_t ROWS = 16;
  struct Shared {
    double at[BLOCK_ITEMS];
    float top;
  };
  PixelsOf<T> x;
  Body body;

  template <int phase>
  SPILLWAY_BOTH void run(Shared& shared, uint32_t pixel, uint32_t item) const {
    const T* const values = x.at(pixel);
    double* const at = shared.at;
    if constexpr (phase == 0) {
      at[item] = -INFINITY;
      for (uint32_t c = item; c < x.channels; c += BLOCK_ITEMS) at[item] = values[c] > at[item] ? float(values[c]) : at[item];
    }
    if constexpr (phase == 1) merge(at, item, ROWS, BLOCK_ITEMS, [](double a, double b) { return b > a ? b : a; });
    if constexpr (phase == 2) {
      merge(at, item, 1, ROWS, [](double a, double b) { return b > a ? b : a; });
      if (item == 0) shared.top = float(at[0]);
    }
    if constexpr (phase == 3) {
      at[item] = 0;
      for (uint32_t c = item; c < x.channels; c += BLOCK_ITEMS) at[item] += double(expf(values[c] - shared.top));
    }
    if constexpr (phase == 4) merge(at, item, ROWS, BLOCK_ITEMS, [](double a, double b) { return a + b; });
    if constexpr (phase == 5) merge(at, item, 1, ROWS, [](double a, double b) { return a + b; });
    if constexpr (phase == 6) body(pixel, Softmax{shared.top, at[0]}, item, BLOCK_ITEMS);
  }

 private:
  /// The first `into` of `from` values become theirs and those behind them.
  template <class F>
  SPILLWAY_BOTH static void merge(double* at, uint32_t item, uint32_t into, uint32_t from, F f) {
    if (item >= into) return;
    for (uint32_t i = item + into; i < from; i += into) at[item] = f(at[item], at[i]);
  }
};

/// body(pixel, its softmax, c, step) for each pixel: once, or by many items, whose channels are c, c + step, ….
template <class T, class Exec, class Body>
void each_softmax(Exec& exec, const View& view, Body body) {
  const PixelsOf<T> x(view);
  if (x.channels >= CHANNELS_OF_BLOCK) return exec.blocks(ops::pixels(view), SoftmaxBlocks<T, Body>{x, body});
  exec.each(ops::pixels(view), [=] SPILLWAY_BOTH(uint32_t pixel) { body(pixel, Softmax::of(x.at(pixel), x.channels), 0, 1); });
}

/// Scratch of the softmax. If pixels have blocks, it is computed before the sum.
inline int64_t softmax_bytes(const View& v) {
  return v.dims[1] >= int64_t(CHANNELS_OF_BLOCK) ? ops::pixels(v) * int64_t(sizeof(Softmax)) : 0;
}

template <class T>
struct SoftmaxOf {
  PixelsOf<T> x;
  const Softmax* known;
  SPILLWAY_BOTH Softmax at(uint32_t pixel) const { return known ? known[pixel] : Softmax::of(x.at(pixel), x.channels); }
  template <class Exec>
  static SoftmaxOf in(Exec& exec, const View& view, void* scratch) {
    Softmax* const into = static_cast<Softmax*>(scratch);
    const PixelsOf<T> x(view);
    if (softmax_bytes(view) == 0) return {x, nullptr};
    each_softmax<T>(exec, view, [=] SPILLWAY_BOTH(uint32_t pixel, const Softmax& s, uint32_t c, uint32_t) {
      if (c == 0) into[pixel] = s;
    });
    return {x, into};
  }
};

/// Σ term over the pixels, times scale(), into the loss.
template <class Exec, class Scale, class Term>
void sum_loss(Exec& exec, const KernelCall& c, void* scratch, Scale scale, Term term) {
  float* const loss = floats(c.outs[0]);
  sum_terms<1>(
      exec, ops::pixels(c.ins[0]), 1, scratch, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t, double* total) { total[0] += term(pixel); },
      [=] SPILLWAY_BOTH(uint32_t, const double* sum) { loss[0] = float(sum[0] * scale()); });
}

struct LossKernel : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(ops::pixels(c.ins[0]), 1); }
};
struct SoftmaxLossKernel : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return softmax_bytes(c.ins[0]) + LossKernel::workspace(c); }
  static void* after_softmax(const KernelCall& c) { return static_cast<std::byte*>(c.workspace) + softmax_bytes(c.ins[0]); }
};

template <>
struct Kernel<OpKind::count_labels> : LossKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Labels labels(c.ins[0]);
    const int64_t ignored = CountLabelsAttrs::read(c.attrs).ignore_index;
    const double* const sum =
        sums_of<1>(exec, ops::pixels(c.ins[0]), 1, c.workspace,
                   [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t, double* total) { total[0] += labels.at(pixel) != ignored; });
    float* const counted = floats(c.outs[0]);
    exec.each(1, [=] SPILLWAY_BOTH(uint32_t) {
      counted[0] = float(fmod(sum[0], ops::COUNT_PIECE));
      counted[1] = float(floor(sum[0] / ops::COUNT_PIECE));
    });
  }
};

template <>
struct Kernel<OpKind::softmax_xent> : SoftmaxLossKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]);
    const Labels labels(c.ins[1]);
    const ops::Xent<float> xent(c);
    const auto softmax = SoftmaxOf<T>::in(exec, c.ins[0], c.workspace);
    sum_loss(
        exec, c, after_softmax(c), [=] SPILLWAY_BOTH() { return xent.scale(); },
        [=] SPILLWAY_BOTH(uint32_t pixel) -> double {
          const int32_t label = labels.at(pixel);
          if (!xent.takes(label, x.channels)) return 0;
          const Softmax s = softmax.at(pixel);
          return double(s.top) + log(s.total) - double(x.at(pixel)[label]);
        });
  }
};

template <>
struct Kernel<OpKind::softmax_xent_counted> : Kernel<OpKind::softmax_xent> {};

template <>
struct Kernel<OpKind::softmax_xent_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dx(c.outs[0]);
    const Labels labels(c.ins[1]);
    const ops::Xent<float> xent(c);
    each_softmax<T>(exec, c.ins[0], [=] SPILLWAY_BOTH(uint32_t pixel, const Softmax& s, uint32_t first, uint32_t step) {
      const int32_t label = labels.at(pixel);
      const bool named = xent.takes(label, x.channels);
      const double scale = xent.scale();
      const T* const values = x.at(pixel);
      T* const gradient = dx.at(pixel);
      for (uint32_t ch = first; ch < x.channels; ch += step)
        gradient[ch] = named ? float((double(expf(values[ch] - s.top)) / s.total - (ch == uint32_t(label) ? 1 : 0)) * scale) : 0.0f;
    });
  }
};

template <>
struct Kernel<OpKind::softmax_xent_counted_bwd> : Kernel<OpKind::softmax_xent_bwd> {};

template <>
struct Kernel<OpKind::count_classes> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return sums_bytes<1>(ops::pixels(c.ins[0]), CountClassesAttrs::read(c.attrs).classes); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Labels labels(c.ins[0]);
    const auto a = CountClassesAttrs::read(c.attrs);
    const int64_t classes = a.classes, ignored = a.ignore_index;
    const double* const sum =
        sums_of<1>(exec, ops::pixels(c.ins[0]), classes, c.workspace, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t k, double* total) {
          const int32_t label = labels.at(pixel);
          total[0] += label == int32_t(k) && label != ignored;
        });
    float* const counted = floats(c.outs[0]);
    exec.each(classes, [=] SPILLWAY_BOTH(uint32_t k) {
      counted[k] = float(fmod(sum[k], ops::COUNT_PIECE));
      counted[classes + k] = float(floor(sum[k] / ops::COUNT_PIECE));
    });
  }
};

/// As many weights of classes as go into a kernel's parameters.
constexpr int64_t WEIGHTS_PIECE = 128;
struct ClassWeights {
  double at[WEIGHTS_PIECE];
};

/// Those of the attributes after `fields` others, or 1 where there are none, to where kernels read them.
template <class Real, class Exec>
void put_class_weights(Exec& exec, const KernelCall& c, int64_t fields, int64_t classes, Real* to) {
  for (int64_t first = 0; first < classes; first += WEIGHTS_PIECE) {
    const int64_t n = classes - first < WEIGHTS_PIECE ? classes - first : WEIGHTS_PIECE;
    ClassWeights weights{};
    for (int64_t i = 0; i < n; i++) weights.at[i] = c.n_attrs > fields ? c.attrs[fields + first + i] : 1.0;
    exec.each(n, [=] SPILLWAY_BOTH(uint32_t i) { to[first + i] = Real(weights.at[i]); });
  }
}

template <>
struct Kernel<OpKind::weigh_classes> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const int64_t classes = c.ins[0].dims[1];
    const float* const counted = floats(c.ins[0]);
    float* const factors = floats(c.outs[0]);
    put_class_weights(exec, c, 0, classes, factors);
    exec.each(1, [=] SPILLWAY_BOTH(uint32_t) {
      double total = 0;
      for (int64_t k = 0; k < classes; k++) total += double(factors[k]) * ops::counted_number(counted + k, counted + classes + k);
      for (int64_t k = 0; k < classes; k++) factors[k] = total > 0 ? float(double(factors[k]) / total) : 0.0f;
    });
  }
};

template <>
struct Kernel<OpKind::class_xent> : SoftmaxLossKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]);
    const Labels labels(c.ins[1]);
    const ops::ClassXentTerms<float> terms(c);
    const auto softmax = SoftmaxOf<T>::in(exec, c.ins[0], c.workspace);
    sum_loss(
        exec, c, after_softmax(c), [=] SPILLWAY_BOTH() { return terms.weight; },
        [=] SPILLWAY_BOTH(uint32_t pixel) -> double {
          const int32_t label = labels.at(pixel);
          if (!terms.takes(label, x.channels)) return 0;
          const Softmax s = softmax.at(pixel);
          return terms.value(x.at(pixel), 1, x.channels, label, double(s.top) + log(s.total));
        });
  }
};

template <>
struct Kernel<OpKind::class_xent_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dx(c.outs[0]);
    const Labels labels(c.ins[1]);
    const ops::ClassXentTerms<float> terms(c);
    each_softmax<T>(exec, c.ins[0], [=] SPILLWAY_BOTH(uint32_t pixel, const Softmax& s, uint32_t first, uint32_t step) {
      const int32_t label = labels.at(pixel);
      const bool named = terms.takes(label, x.channels);
      const double all = terms.all_factors(x.channels);
      const T* const values = x.at(pixel);
      T* const gradient = dx.at(pixel);
      for (uint32_t ch = first; ch < x.channels; ch += step)
        gradient[ch] = named ? float(terms.slope(double(expf(values[ch] - s.top)) / s.total, ch, x.channels, label, all)) : 0.0f;
    });
  }
};

/// The factor of a pixel in a call with a mask, or 1.
struct Factors {
  Pixels pixels;
  bool given;
  explicit Factors(const KernelCall& c) : pixels(c.ins[c.n_ins > 2 ? 2 : 0]), given(c.n_ins > 2) {}
  SPILLWAY_BOTH double at(uint32_t pixel) const { return given ? double(pixels.at(pixel)[0]) : 1.0; }
};

template <>
struct Kernel<OpKind::soft_xent> : SoftmaxLossKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]);
    const Pixels target(c.ins[1]);
    const ops::SoftXentTerms terms(c);
    const Factors factors(c);
    const auto softmax = SoftmaxOf<T>::in(exec, c.ins[0], c.workspace);
    sum_loss(
        exec, c, after_softmax(c), [=] SPILLWAY_BOTH() { return terms.scale; },
        [=] SPILLWAY_BOTH(uint32_t pixel) -> double {
          const T* const values = x.at(pixel);
          const Softmax s = softmax.at(pixel);
          const double log_total = double(s.top) + log(s.total);
          double sum = 0;
          for (uint32_t ch = 0; ch < x.channels; ch++)
            sum += terms.share(double(target.at(pixel)[ch]), x.channels) * (log_total - double(values[ch]));
          return sum * factors.at(pixel);
        });
  }
};

template <>
struct Kernel<OpKind::soft_xent_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dx(c.outs[0]);
    const Pixels target(c.ins[1]);
    const ops::SoftXentTerms terms(c);
    const Factors factors(c);
    each_softmax<T>(exec, c.ins[0], [=] SPILLWAY_BOTH(uint32_t pixel, const Softmax& s, uint32_t first, uint32_t step) {
      const T* const values = x.at(pixel);
      T* const gradient = dx.at(pixel);
      double all = 0;
      const double scale = terms.scale * factors.at(pixel);
      for (uint32_t ch = 0; ch < x.channels; ch++) all += terms.share(double(target.at(pixel)[ch]), x.channels);
      for (uint32_t ch = first; ch < x.channels; ch += step)
        gradient[ch] =
            float(scale * (double(expf(values[ch] - s.top)) / s.total * all - terms.share(double(target.at(pixel)[ch]), x.channels)));
    });
  }
};

template <>
struct Kernel<OpKind::label_numbers> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const Labels labels(c.ins[0]);
    const Pixels y(c.outs[0]);
    exec.each(ops::pixels(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t pixel) { y.at(pixel)[0] = float(labels.at(pixel)); });
  }
};

/// The labels that a call of Dice takes.
struct DiceLabels {
  Labels labels;
  int64_t classes, ignored;
  explicit DiceLabels(const KernelCall& c)
      : labels(c.ins[1]), classes(c.ins[0].dims[1]), ignored(DiceSumsAttrs::read(c.attrs).ignore_index) {}
  /// The label, or -1 where none is taken.
  SPILLWAY_BOTH int64_t at(uint32_t pixel) const {
    const int32_t label = labels.at(pixel);
    return label >= 0 && label < ops::dice_labels(classes) && label != ignored ? label : -1;
  }
};

template <>
struct Kernel<OpKind::dice_sums> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    return ops::pixels(c.ins[0]) * int64_t(sizeof(Softmax)) + sums_bytes<3>(ops::pixels(c.ins[0]), c.ins[0].dims[1]);
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]);
    const DiceLabels labels(c);
    const int64_t pixels = ops::pixels(c.ins[0]), classes = c.ins[0].dims[1];
    Softmax* const softmax = static_cast<Softmax*>(c.workspace);
    exec.each(pixels,
              [=] SPILLWAY_BOTH(uint32_t pixel) { softmax[pixel] = Softmax::of(x.at(pixel), labels.at(pixel) < 0 ? 0 : x.channels); });
    const double* const sum =
        sums_of<3>(exec, pixels, classes, softmax + pixels, [=] SPILLWAY_BOTH(uint32_t pixel, uint32_t k, double* total) {
          const int64_t label = labels.at(pixel);
          if (label < 0) return;
          // With one channel (its label is 1 for the class), the sigmoid.
          const double p = x.channels == 1 ? ops::dice_sigmoid(double(x.at(pixel)[0]))
                                           : double(expf(x.at(pixel)[k] - softmax[pixel].top)) / softmax[pixel].total;
          if (label == (x.channels == 1 ? 1 : int64_t(k))) {
            total[0] += p;
            total[2] += 1;
          }
          total[1] += p;
        });
    float* const sums = floats(c.outs[0]);
    exec.each(3 * classes, [=] SPILLWAY_BOTH(uint32_t i) { sums[i] = float(sum[i]); });
  }
};

template <>
struct Kernel<OpKind::dice_sums_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const PixelsOf<T> x(c.ins[0]), dx(c.outs[0]);
    const DiceLabels labels(c);
    const float *const shared = floats(c.ins[2]), *const given = shared + c.ins[0].dims[1];
    exec.each(ops::pixels(c.ins[0]), [=] SPILLWAY_BOTH(uint32_t pixel) {
      const int64_t label = labels.at(pixel);
      const T* const values = x.at(pixel);
      T* const gradient = dx.at(pixel);
      if (x.channels == 1) {
        const double yes = ops::dice_sigmoid(double(values[0]));
        gradient[0] = label < 0 ? 0.0f : float(yes * (1 - yes) * (double(given[0]) + double(label) * double(shared[0])));
        return;
      }
      const Softmax s = Softmax::of(values, label < 0 ? 0 : x.channels);
      double mean = 0;
      for (uint32_t k = 0; label >= 0 && k < x.channels; k++)
        mean += double(expf(values[k] - s.top)) / s.total * (double(given[k]) + (int64_t(k) == label ? double(shared[k]) : 0));
      for (uint32_t k = 0; k < x.channels; k++) {
        const double slope = double(given[k]) + (int64_t(k) == label ? double(shared[k]) : 0);
        gradient[k] = label < 0 ? 0.0f : float(double(expf(values[k] - s.top)) / s.total * (slope - mean));
      }
    });
  }
};

/// The result of Dice from its sums, with the class weights in the workspace.
struct DiceKernel : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return (c.n_attrs - ops::DICE_FIELDS) * int64_t(sizeof(double)); }
  template <class Exec>
  static ops::DiceTerms<float> terms(Exec& exec, const KernelCall& c) {
    double* const weights = static_cast<double*>(c.workspace);
    if (c.n_attrs > ops::DICE_FIELDS) put_class_weights(exec, c, ops::DICE_FIELDS, c.ins[0].dims[1], weights);
    return ops::DiceTerms<float>(c, weights);
  }
};

template <>
struct Kernel<OpKind::dice> : DiceKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::DiceTerms<float> sums = terms(exec, c);
    float* const loss = floats(c.outs[0]);
    exec.each(1, [=] SPILLWAY_BOTH(uint32_t) { loss[0] = float(sums.value()); });
  }
};

template <>
struct Kernel<OpKind::dice_bwd> : DiceKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::DiceTerms<float> sums = terms(exec, c);
    float* const slopes = floats(c.outs[0]);
    const int64_t classes = sums.classes;
    exec.each(classes, [=] SPILLWAY_BOTH(uint32_t k) {
      slopes[k] = float(sums.slope_of_shared(k));
      slopes[classes + k] = float(sums.slope_of_given(k));
      slopes[2 * classes + k] = 0;
    });
  }
};

/// The target's element, or the constant that stands for it.
struct Target {
  Pixels pixels;
  bool given;
  double constant;
  Target(const KernelCall& c, double constant_) : pixels(c.ins[c.n_ins > 1 ? 1 : 0]), given(c.n_ins > 1), constant(constant_) {}
  SPILLWAY_BOTH double at(uint32_t pixel, uint32_t c) const { return given ? double(pixels.at(pixel)[c]) : constant; }
};

template <class Loss>
struct ElementLoss : LossKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = ops::ElementLossAttrs::read(c.attrs);
    const Loss loss = ops::loss_of<Loss>(c.attrs);
    const PixelsOf<T> x(c.ins[0]);
    const Target target(c, a.constant);
    const Factors factors(c);
    const double scale = a.weight / double(a.count);
    sum_loss(
        exec, c, c.workspace, [=] SPILLWAY_BOTH() { return scale; },
        [=] SPILLWAY_BOTH(uint32_t pixel) -> double {
          double sum = 0;
          for (uint32_t ch = 0; ch < x.channels; ch++) sum += loss.value(double(x.at(pixel)[ch]), target.at(pixel, ch));
          return sum * factors.at(pixel);
        });
  }
};

template <class Loss>
struct ElementLossBackward : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = ops::ElementLossAttrs::read(c.attrs);
    const Loss loss = ops::loss_of<Loss>(c.attrs);
    const PixelsOf<T> x(c.ins[0]), dx(c.outs[0]);
    const Target target(c, a.constant);
    const Factors factors(c);
    const double scale = a.weight / double(a.count);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const uint32_t pixel = i / dx.channels, ch = i % dx.channels;
      dx.at(pixel)[ch] = float(scale * factors.at(pixel) * loss.slope(double(x.at(pixel)[ch]), target.at(pixel, ch)));
    });
  }
};

#define SPILLWAY_LOSS_KERNEL(kind)                                       \
  template <>                                                            \
  struct Kernel<OpKind::kind> : ElementLoss<ops::element_loss::kind> {}; \
  template <>                                                            \
  struct Kernel<OpKind::kind##_bwd> : ElementLossBackward<ops::element_loss::kind> {};
SPILLWAY_ELEMENT_LOSSES(SPILLWAY_LOSS_KERNEL)
#undef SPILLWAY_LOSS_KERNEL

}  // namespace spillway::cuda
