// The weight gradient of depthwise convolutions of 5x5 and 7x7 pixels, for which oneDNN has no fast kernel. In: x and dy, floats or bf16,
// any padding. Out: dw and the bias's. A ring holds the K rows of x that the windows of a row of dy cover, as floats, with their padding.
// The K·K sums of sixteen channels stay in registers along a row. Sums are floats over few pixels, then double.
// Invariant: parts depend on the shape only and are merged in order: the same bits for any number of threads.
#pragma once
#include <omp.h>

#include "cpu/blocks.hpp"
#include "cpu/stored.hpp"
#include "ops/conv2d.hpp"

namespace spillway::cpu::depthwise {

/// Channels that are walked together: enough for whole lines of memory, few enough for K rows of them to stay in a cache.
constexpr int64_t channels_at_once = 64;
/// Floats take this many products before they are added to doubles.
constexpr int64_t pixels_at_once = 4096;

inline bool applies(const ops::Conv2d& g) {
  const auto& [h, w] = g.window;
  return g.groups == g.in_channels && g.groups == g.out_channels && h.dilation == 1 && w.dilation == 1 && h.kernel == w.kernel &&
         h.stride == w.stride && (h.kernel == 5 || h.kernel == 7) && h.stride <= 2;
}

inline int64_t rounded_up(int64_t channels) { return (channels + block_width - 1) / block_width * block_width; }
/// Parts of the rows of dy. With the groups of channels, they are work for sixteen threads.
inline int64_t parts_of(const ops::Conv2d& g) {
  const int64_t groups = (g.groups + channels_at_once - 1) / channels_at_once;
  return std::min<int64_t>(g.batch * g.window.h.out_size, (16 + groups - 1) / groups);
}
/// Sums of a channel: its weights, and its bias.
inline int64_t sums_of(const ops::Conv2d& g) { return g.window.h.kernel * g.window.w.kernel + 1; }
/// Columns that the windows of a row cover.
inline int64_t columns_of(const ops::Conv2d& g) { return (g.window.w.out_size - 1) * g.window.w.stride + g.window.w.kernel; }
inline int64_t thread_floats(const ops::Conv2d& g) {
  return (g.window.h.kernel * columns_of(g) + g.window.w.out_size + sums_of(g)) * channels_at_once;
}
inline int64_t totals_of(const ops::Conv2d& g) { return parts_of(g) * sums_of(g) * rounded_up(g.groups); }
inline int64_t workspace_bytes(const ops::Conv2d& g) {
  return totals_of(g) * int64_t(sizeof(double)) + use_threads() * thread_floats(g) * int64_t(sizeof(float));
}

/// The first `count` channels of a pixel; the others are 0.
template <class T>
Block load_some(const T* from, int64_t count) {
  if (count >= block_width) return load_block(from);
  Block b{};
  for (int64_t i = 0; i < count; i++) b[i] = float(from[i]);
  return b;
}

/// sums[row][column] += Σ dy·x over the pixels of a row of dy, for R rows of the windows.
template <int R, int K, int S>
void add_rows(const float* dy, const float* const* x, int64_t pixels, float* sums) {
  Block total[R][K];
  for (int r = 0; r < R; r++)
    for (int k = 0; k < K; k++) total[r][k] = load_block(sums + (r * K + k) * block_width);
  for (int64_t o = 0; o < pixels; o++) {
    const Block slope = load_block(dy + o * block_width);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      const float* const from = x[r] + o * S * block_width;
#pragma GCC unroll 8
      for (int k = 0; k < K; k++) total[r][k] += slope * load_block(from + k * block_width);
    }
  }
  for (int r = 0; r < R; r++)
    for (int k = 0; k < K; k++) store_block(sums + (r * K + k) * block_width, total[r][k]);
}

/// Sums in registers; a block takes two of the narrower ones.
#ifdef __AVX512F__
constexpr int most_sums = 25;
#else
constexpr int most_sums = 7;
#endif
/// All rows of the windows, as many at a time as have their sums in registers.
template <int K, int S>
void add_windows(const float* dy, const float* const* x, int64_t pixels, float* sums) {
  constexpr int rows = most_sums / K, rest = K % rows;
  for (int r = 0; r + rows <= K; r += rows) add_rows<rows, K, S>(dy, x + r, pixels, sums + r * K * block_width);
  if constexpr (rest > 0) add_rows<rest, K, S>(dy, x + K - rest, pixels, sums + (K - rest) * K * block_width);
}

/// Some channels of a part of the rows of dy.
template <class T, int K, int S>
class Part {
 public:
  Part(const KernelCall& c, const ops::Conv2d& g, int64_t first, float* scratch)
      : c_(c),
        g_(g),
        first_(first),
        channels_(std::min(channels_at_once, g.groups - first)),
        columns_(columns_of(g)),
        pixels_(g.window.w.out_size),
        ring_(scratch),
        line_(ring_ + K * columns_ * channels_at_once),
        sums_(line_ + pixels_ * channels_at_once) {}

  /// Adds rows [from, to) of all images to `totals`, which has `step` doubles for each sum.
  void add(int64_t from, int64_t to, double* totals, int64_t step) {
    const int64_t rows = g_.window.h.out_size, rows_at_once = std::max<int64_t>(1, pixels_at_once / pixels_);
    std::fill_n(sums_, (K * K + 1) * channels_at_once, 0.0f);
    int64_t have = 0;  // rows of the ring, counted from the first that this image's first window covers
    for (int64_t row = from; row < to; row++) {
      const int64_t image = row / rows, oy = row % rows;
      if (row == from || oy == 0) have = oy * S;
      for (; have < oy * S + K; have++) pack_row(image, have);
      pack_gradient(image, oy);
      for (int64_t block = 0; block * block_width < channels_; block++) add_block(block, oy);
      if ((row - from + 1) % rows_at_once == 0 || row + 1 == to) flush(totals, step);
    }
  }

 private:
  /// A row of x with its padding as floats, block by block of channels.
  void pack_row(int64_t image, int64_t row) {
    const View& x = c_.ins[0];
    const auto& [h, w] = g_.window;
    const int64_t y = h.start(h.out_lo) + row, left = w.start(w.out_lo);
    const bool inside = y >= h.in_lo && y < h.in_hi();
    const int64_t before = inside ? std::clamp<int64_t>(w.in_lo - left, 0, columns_) : columns_;
    const int64_t end = inside ? std::clamp<int64_t>(w.in_hi() - left, before, columns_) : columns_;
    for (int64_t block = 0; block * block_width < channels_; block++) {
      float* const to = ring_at(block, row);
      std::fill_n(to, before * block_width, 0.0f);
      std::fill_n(to + end * block_width, (columns_ - end) * block_width, 0.0f);
    }
    if (before < end)
      pack(pixel_of<T>(x, image, y - h.in_lo, left + before - w.in_lo), x.strides[3], end - before, ring_at(0, row) + before * block_width,
           K * columns_);
  }
  void pack_gradient(int64_t image, int64_t oy) {
    const View& dy = c_.ins[1];
    pack(pixel_of<T>(dy, image, oy, 0), dy.strides[3], pixels_, line_, pixels_);
  }
  /// Pixels one after the other, so that memory is read in order; `step` blocks lie between two blocks of channels.
  void pack(const T* from, int64_t stride, int64_t pixels, float* to, int64_t step) const {
    for (int64_t i = 0; i < pixels; i++)
      for (int64_t ch = 0; ch < channels_; ch += block_width)
        store_block(to + (ch / block_width * step + i) * block_width, load_some(from + i * stride + first_ + ch, channels_ - ch));
  }
  float* ring_at(int64_t block, int64_t row) const { return ring_ + (block * K + row % K) * columns_ * block_width; }

  void add_block(int64_t block, int64_t oy) {
    const float* x[K];
    for (int r = 0; r < K; r++) x[r] = ring_at(block, oy * S + r);
    float* const sums = sums_ + block * (K * K + 1) * block_width;
    const float* const dy = line_ + block * pixels_ * block_width;
    add_windows<K, S>(dy, x, pixels_, sums);
    Block bias = load_block(sums + K * K * block_width);
    for (int64_t o = 0; o < pixels_; o++) bias += load_block(dy + o * block_width);
    store_block(sums + K * K * block_width, bias);
  }
  void flush(double* totals, int64_t step) {
    for (int64_t block = 0; block * block_width < channels_; block++)
      for (int64_t k = 0; k <= K * K; k++) {
        const float* const sums = sums_ + (block * (K * K + 1) + k) * block_width;
        double* const to = totals + k * step + first_ + block * block_width;
#pragma omp simd
        for (int64_t i = 0; i < block_width; i++) to[i] += double(sums[i]);
      }
    std::fill_n(sums_, (K * K + 1) * channels_at_once, 0.0f);
  }

  const KernelCall& c_;
  const ops::Conv2d& g_;
  int64_t first_, channels_, columns_, pixels_;
  float *const ring_, *const line_, *const sums_;
};

template <class T, int K, int S>
void backward_weights(const KernelCall& c, const ops::Conv2d& g) {
  const int64_t parts = parts_of(g), rows = g.batch * g.window.h.out_size, step = rounded_up(g.groups);
  double* const totals = static_cast<double*>(c.workspace);
  float* const scratch = reinterpret_cast<float*>(totals + totals_of(g));
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t part = 0; part < parts; part++)
    for (int64_t first = 0; first < g.groups; first += channels_at_once) {
      double* const own = totals + part * (K * K + 1) * step;
      for (int64_t k = 0; k <= K * K; k++) std::fill_n(own + k * step + first, std::min(channels_at_once, step - first), 0.0);
      Part<T, K, S>(c, g, first, scratch + omp_get_thread_num() * thread_floats(g))
          .add(part * rows / parts, (part + 1) * rows / parts, own, step);
    }
  const int64_t size = (K * K + 1) * step;
  for (int64_t part = 1; part < parts; part++)
#pragma omp simd
    for (int64_t i = 0; i < size; i++) totals[i] += totals[part * size + i];
  for (int64_t ch = 0; ch < g.groups; ch++) {
    for (int64_t k = 0; k < K * K; k++) floats(c.outs[0])[ch * K * K + k] = float(totals[k * step + ch]);
    if (c.n_outs > 1) floats(c.outs[1])[ch] = float(totals[K * K * step + ch]);
  }
}

template <class T, int K>
void with_stride(const KernelCall& c, const ops::Conv2d& g) {
  g.window.h.stride == 1 ? backward_weights<T, K, 1>(c, g) : backward_weights<T, K, 2>(c, g);
}
template <class T>
void with_kernel(const KernelCall& c, const ops::Conv2d& g) {
  g.window.h.kernel == 5 ? with_stride<T, 5>(c, g) : with_stride<T, 7>(c, g);
}
inline void backward_weights(const KernelCall& c, const ops::Conv2d& g) {
  is_bf16(c.ins[0]) ? with_kernel<Bf16>(c, g) : with_kernel<float>(c, g);
}

}  // namespace spillway::cpu::depthwise
