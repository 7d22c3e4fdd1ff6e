// Layer norm over the channels of each pixel, and its gradients: a pixel's moments, then its channels.
#include <cmath>

#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"

namespace spillway::cpu {
namespace {

/// A sum over the channels of a pixel, in double.
class Total {
 public:
  void add(size_t half, const HalfBlock& lanes) { lanes_[half] += lanes; }
  void add(size_t, double last) { last_ += last; }
  double value() const {
    const HalfBlock lanes = lanes_[0] + lanes_[1];
    double sum = last_;
    for (size_t i = 0; i < sizeof lanes / sizeof sum; i++) sum += lanes[i];
    return sum;
  }

 private:
  std::array<HalfBlock, 2> lanes_{};
  double last_ = 0;
};

/// The moments that normalise the channels of a pixel. Sums are of differences from the pixel's first channel: squares of large numbers
/// that differ little would lose the difference.
struct PixelMoments {
  template <class T>
  PixelMoments(const T* x, int64_t channels, double eps, const T* prefetched = nullptr) {
    const double pivot = double(float(x[0]));
    Total sum, squares;
    each_block(0, channels, [&]<class V>(V, int64_t ch) {
      if (prefetched) __builtin_prefetch(prefetched + ch);
      const auto values = widened(load_as<V>(x + ch));
      for (size_t i = 0; i < values.size(); i++) {
        const auto difference = values[i] - pivot;
        sum.add(i, difference);
        squares.add(i, difference * difference);
      }
    });
    take(pivot, sum.value(), squares.value(), double(channels), eps);
  }
  PixelMoments() = default;
  void take(double pivot, double sum, double squares, double count, double eps) {
    mean = pivot + sum / count;
    rstd = 1 / std::sqrt(std::max(0.0, squares - sum * sum / count) / count + eps);
  }
  double mean, rstd;
};

/// Calls f(b, h, w) for each pixel by its place in the view.
template <class F>
void each_place(const View& v, F f) {
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t b = 0; b < v.dims[0]; b++)
    for (int64_t h = 0; h < v.dims[2]; h++)
      for (int64_t w = 0; w < v.dims[3]; w++) f(b, h, w);
}

struct LayerNorm : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const double eps = LayerNormAttrs::read(c.attrs).eps;
    const float *const gamma = floats(c.ins[1]), *const beta = c.n_ins > 2 ? floats(c.ins[2]) : nullptr;
    each_place(x, [&](int64_t b, int64_t h, int64_t w) {
      const T* const from = pixel_of<T>(x, b, h, w);
      T* const to = pixel_of<T>(y, b, h, w);
      const PixelMoments m(from, x.dims[1], eps);
      const float mean = float(m.mean), rstd = float(m.rstd);
      each_block(0, x.dims[1], [&]<class V>(V, int64_t ch) {
        const V shift = beta ? load_as<V>(beta + ch) : V{};
        store_as(to + ch, (load_as<V>(from + ch) - mean) * rstd * load_as<V>(gamma + ch) + shift);
      });
    });
  }
};

struct LayerNormBackwardData : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &dy = c.ins[1], &dx = c.outs[0];
    const double eps = LayerNormBwdDataAttrs::read(c.attrs).eps, channels = double(x.dims[1]);
    const float* const gamma = floats(c.ins[2]);
    each_place(x, [&](int64_t b, int64_t h, int64_t w) {
      const T *const value = pixel_of<T>(x, b, h, w), *const gradient = pixel_of<T>(dy, b, h, w);
      T* const to = pixel_of<T>(dx, b, h, w);
      const double pivot = double(float(value[0]));
      Total sum, squares, plain, products;
      // In double: a gradient that hardly changes the normalised values is a small difference of large numbers.
      each_block(0, x.dims[1], [&]<class V>(V, int64_t ch) {
        const auto values = widened(load_as<V>(value + ch)), gradients = widened(load_as<V>(gradient + ch)),
                   gammas = widened(load_as<V>(gamma + ch));
        for (size_t i = 0; i < values.size(); i++) {
          const auto difference = values[i] - pivot, scaled = gammas[i] * gradients[i];
          sum.add(i, difference);
          squares.add(i, difference * difference);
          plain.add(i, scaled);
          products.add(i, scaled * difference);
        }
      });
      PixelMoments m;
      m.take(pivot, sum.value(), squares.value(), channels, eps);
      const double total = plain.value(), level = total / channels,
                   slope = (products.value() - (m.mean - pivot) * total) * m.rstd * m.rstd / channels;
      each_block(0, x.dims[1], [&]<class V>(V, int64_t ch) {
        const auto values = widened(load_as<V>(value + ch)), gradients = widened(load_as<V>(gradient + ch)),
                   gammas = widened(load_as<V>(gamma + ch));
        auto slopes = values;
        for (size_t i = 0; i < values.size(); i++) slopes[i] = m.rstd * (gammas[i] * gradients[i] - level - (values[i] - m.mean) * slope);
        store_as(to + ch, narrowed(slopes));
      });
    });
  }
};

/// Blocks of rows by their number only, merged in order: the same bits for any number of threads. A few pixels' shares are added as floats.
struct LayerNormBackwardWeights : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return channel_sums_bytes<2>(c.ins[0]); }
  template <class T>
  static void run(const KernelCall& c) {
    constexpr int64_t few = 8;
    const View &x = c.ins[0], &dy = c.ins[1];
    const double eps = LayerNormBwdWeightsAttrs::read(c.attrs).eps;
    const int64_t channels = x.dims[1], rows = x.dims[0] * x.dims[2], blocks = sum_blocks(x);
    double* const scratch = static_cast<double*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
      double *const products = scratch + block * 2 * channels, *const sums = products + channels;
      std::fill_n(products, 2 * channels, 0.0);
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
        for (int64_t first = 0; first < x.dims[3]; first += few) {
          const int64_t count = std::min(few, x.dims[3] - first);
          const auto pixel = [&](const View& v, int64_t w) { return pixel_of<T>(v, row / v.dims[2], row % v.dims[2], first + w); };
          std::array<const T*, few> values, gradients;
          std::array<float, few> mean, rstd;
          for (int64_t w = 0; w < count; w++) {
            values[size_t(w)] = pixel(x, w);
            gradients[size_t(w)] = pixel(dy, w);
            const PixelMoments m(values[size_t(w)], channels, eps, gradients[size_t(w)]);
            mean[size_t(w)] = float(m.mean);
            rstd[size_t(w)] = float(m.rstd);
          }
          each_block(0, channels, [&]<class V>(V, int64_t ch) {
            V product{}, sum{};
            for (size_t w = 0; w < size_t(count); w++) {
              const V gradient = load_as<V>(gradients[w] + ch);
              product += gradient * ((load_as<V>(values[w] + ch) - mean[w]) * rstd[w]);
              sum += gradient;
            }
            add_to(products + ch, product);
            add_to(sums + ch, sum);
          });
        }
    }
    for (uint32_t k = 0; k < 2; k++)
      for (int64_t ch = 0; ch < channels; ch++) {
        double total = 0;
        for (int64_t block = 0; block < blocks; block++) total += scratch[(block * 2 + k) * channels + ch];
        floats(c.outs[k])[ch] = float(total);
      }
  }
};

}  // namespace

const KernelEntry layer_norm = entry<LayerNorm>();
const KernelEntry layer_norm_bwd_data = entry<LayerNormBackwardData>();
const KernelEntry layer_norm_bwd_weights = entry<LayerNormBackwardWeights>();

}  // namespace spillway::cpu
