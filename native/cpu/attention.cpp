// Attention within groups of pixels, or to the pixels of another value, and its gradient. A thread has one head of one group at a time: its
// queries, keys and values as floats, and a block of rows of scores. In the backward, it computes the scores again. Sums of the table's
// gradient have a fixed order: that of slices of groups.
#include "ops/attention.hpp"

#include <omp.h>

#include <cmath>
#include <limits>

#include "cpu/row_products.hpp"
#include "ops/elementary.hpp"

namespace spillway::cpu {
namespace {

constexpr int64_t block_rows = 16;
/// Images and groups in slices: their number depends on the shape only.
int64_t slices_of(const ops::AttentionPlan& p) { return std::min<int64_t>(p.images * p.groups(), 16); }

/// out[j][e] += Σ_r p[r][j]·a[r][e].
void add_turned(const float* p, const float* a, float* out, int64_t rows, int64_t width, int64_t inner) {
  for (int64_t j = 0; j < width; j++)
    for (int64_t r = 0; r < rows; r++) {
      const float factor = p[r * width + j];
#pragma omp simd
      for (int64_t e = 0; e < inner; e++) out[j * inner + e] += factor * a[r * inner + e];
    }
}

/// The tokens of a group that are queries, or those that are keys and values.
struct Side {
  const ops::AttentionPlan& plan;
  int64_t image, number, count, across, width = plan.head;
  bool are_keys;

  template <class T>
  T* at(const View& v, int64_t token, int64_t channel) const {
    const int64_t pixel = (are_keys ? plan.key(number, token) : plan.token(number, token)).pixel;
    return pixel_of<T>(v, image, pixel / across, pixel % across) + channel;
  }
  /// Rows of a head's channels, times a factor.
  template <class T>
  void gather(const View& v, int64_t channel, float* to, float factor = 1) const {
    for (int64_t i = 0; i < count; i++) {
      const T* const from = at<T>(v, i, channel);
      for (int64_t e = 0; e < width; e++) to[i * width + e] = float(from[e]) * factor;
    }
  }
  /// The same as columns.
  template <class T>
  void gather_turned(const View& v, int64_t channel, float* to) const {
    for (int64_t i = 0; i < count; i++) {
      const T* const from = at<T>(v, i, channel);
      for (int64_t e = 0; e < width; e++) to[e * count + i] = float(from[e]);
    }
  }
  template <class T>
  void scatter(const float* from, const View& v, int64_t channel) const {
    for (int64_t i = 0; i < count; i++) store(from + i * width, at<T>(v, i, channel), width);
  }
};

/// One head of one group of an image, with the views that it reads and writes.
struct Group {
  const ops::AttentionPlan& plan;
  int64_t image, number, head, tokens = plan.tokens(), keys = plan.keys(), width = plan.head;
  Side queries{.plan = plan, .image = image, .number = number, .count = tokens, .across = plan.width, .are_keys = false};
  Side pairs{.plan = plan, .image = image, .number = number, .count = keys, .across = plan.key_width, .are_keys = true};

  /// Scores of a query become its shares of the keys.
  void normalise(int64_t query, float* scores, const float* table) const {
    const int side = plan.token(number, query).side;
    const bool shifted = plan.a.shift_h + plan.a.shift_w > 0;
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < keys; j++) {
      if (table) scores[j] += table[plan.distance(query, j) + head];
      if (shifted && plan.token(number, j).side != side) scores[j] = -std::numeric_limits<float>::infinity();
      most = std::max(most, scores[j]);
    }
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < keys; j++) sum += double(scores[j] = ops::exponential_of_negative(scores[j] - most));
    const float share = float(1 / sum);
#pragma omp simd
    for (int64_t j = 0; j < keys; j++) scores[j] *= share;
  }
};

/// Floats of a thread: arrays of a head's channels, `queries` for each query and `keys` for each key, and `rows` rows of scores.
int64_t own_floats(const ops::AttentionPlan& p, int64_t queries, int64_t keys, int64_t rows) {
  return p.tokens() * queries * p.head + p.keys() * (keys * p.head + rows);
}

/// Calls f(slice, group, scratch of the thread) for all groups and heads; a slice's groups of a head in order.
template <class F>
void each_group(const ops::AttentionPlan& plan, float* scratch, int64_t own, F f) {
  const int64_t all = plan.images * plan.groups(), slices = slices_of(plan);
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t slice = 0; slice < slices; slice++)
    for (int64_t head = 0; head < plan.a.heads; head++)
      for (int64_t g = slice * all / slices; g < (slice + 1) * all / slices; g++)
        f(slice, Group{plan, g / plan.groups(), g % plan.groups(), head}, scratch + omp_get_thread_num() * own);
}

struct Attention : PlainKernel {
  static int64_t own(const ops::AttentionPlan& p) { return own_floats(p, 1, 2, block_rows); }
  static int64_t workspace(const KernelCall& c) { return use_threads() * own(ops::AttentionPlan(c)) * int64_t(sizeof(float)); }
  template <class T>
  static void run(const KernelCall& c) {
    const ops::AttentionPlan plan(c);
    const float* const table = plan.a.biased ? floats(c.ins[1]) : nullptr;
    each_group(plan, static_cast<float*>(c.workspace), own(plan),
               [&](int64_t, const Group& g, float* scratch) { of_group<T>(c, g, scratch, table); });
  }

 private:
  template <class T>
  static void of_group(const KernelCall& c, const Group& g, float* own, const float* table) {
    const int64_t size = g.keys * g.width;
    float *const q = own, *const k = q + g.tokens * g.width, *const v = k + size, *const scores = v + size;
    const View& kv = c.ins[g.plan.keys_at()];
    g.queries.gather<T>(c.ins[0], g.plan.channel(0, g.head), q, float(g.plan.a.scale));
    g.pairs.gather_turned<T>(kv, g.plan.channel(1, g.head), k);
    g.pairs.gather<T>(kv, g.plan.channel(2, g.head), v);
    for (int64_t first = 0; first < g.tokens; first += block_rows) {
      const int64_t rows = std::min(block_rows, g.tokens - first);
      multiply_rows(q + first * g.width, k, scores, rows, g.width, g.keys);
      for (int64_t r = 0; r < rows; r++) g.normalise(first + r, scores + r * g.keys, table);
      // The queries of these rows are not needed again.
      multiply_rows(scores, v, q + first * g.width, rows, g.keys, g.width);
    }
    g.queries.scatter<T>(q, c.outs[0], g.head * g.width);
  }
};

struct AttentionBackward : PlainKernel {
  static int64_t own(const ops::AttentionPlan& p) { return own_floats(p, 3, 5, 2 * block_rows); }
  static int64_t table_doubles(const ops::AttentionPlan& p) { return p.a.biased ? p.distances() * p.a.heads : 0; }
  static int64_t workspace(const KernelCall& c) {
    const ops::AttentionPlan plan(c);
    return slices_of(plan) * table_doubles(plan) * int64_t(sizeof(double)) + use_threads() * own(plan) * int64_t(sizeof(float));
  }
  template <class T>
  static void run(const KernelCall& c) {
    const ops::AttentionPlan plan(c);
    const float* const table = plan.a.biased ? floats(c.ins[2]) : nullptr;
    const int64_t size = table_doubles(plan), slices = slices_of(plan);
    double* const sums = static_cast<double*>(c.workspace);
    std::fill_n(sums, slices * size, 0.0);
    each_group(plan, reinterpret_cast<float*>(sums + slices * size), own(plan), [&](int64_t slice, const Group& g, float* scratch) {
      of_group<T>(c, g, scratch, table, table ? sums + slice * size : nullptr);
    });
    for (int64_t i = 0; i < size; i++) {
      double total = 0;
      for (int64_t slice = 0; slice < slices; slice++) total += sums[slice * size + i];
      floats(c.outs[1])[i] = float(total);
    }
  }

 private:
  template <class T>
  static void of_group(const KernelCall& c, const Group& g, float* own, const float* table, double* dtable) {
    const int64_t of_queries = g.tokens * g.width, size = g.keys * g.width;
    float *const q = own, *const dy = q + of_queries, *const dq = dy + of_queries, *const k = dq + of_queries, *const k_turned = k + size;
    float *const v_turned = k_turned + size, *const dk = v_turned + size, *const dv = dk + size, *const shares = dv + size;
    float* const slopes = shares + block_rows * g.keys;
    const float scale = float(g.plan.a.scale);
    const View &kv = c.ins[g.plan.keys_at()], &dkv = c.outs[g.plan.keys_at()];
    g.queries.gather<T>(c.ins[0], g.plan.channel(0, g.head), q, scale);
    g.pairs.gather<T>(kv, g.plan.channel(1, g.head), k, scale);
    g.pairs.gather_turned<T>(kv, g.plan.channel(1, g.head), k_turned);
    g.pairs.gather_turned<T>(kv, g.plan.channel(2, g.head), v_turned);
    g.queries.gather<T>(c.ins[g.plan.gradient_at()], g.head * g.width, dy);
    std::fill_n(dk, 2 * size, 0.0f);
    for (int64_t first = 0; first < g.tokens; first += block_rows) {
      const int64_t rows = std::min(block_rows, g.tokens - first);
      multiply_rows(q + first * g.width, k_turned, shares, rows, g.width, g.keys);
      multiply_rows(dy + first * g.width, v_turned, slopes, rows, g.width, g.keys);
      for (int64_t r = 0; r < rows; r++) {
        g.normalise(first + r, shares + r * g.keys, table);
        slope(g, first + r, shares + r * g.keys, slopes + r * g.keys, dtable);
      }
      multiply_rows(slopes, k, dq + first * g.width, rows, g.keys, g.width);
      add_turned(slopes, q + first * g.width, dk, rows, g.keys, g.width);
      add_turned(shares, dy + first * g.width, dv, rows, g.keys, g.width);
    }
    g.queries.scatter<T>(dq, c.outs[0], g.plan.channel(0, g.head));
    g.pairs.scatter<T>(dk, dkv, g.plan.channel(1, g.head));
    g.pairs.scatter<T>(dv, dkv, g.plan.channel(2, g.head));
  }

  /// Gradients of shares become those of scores.
  static void slope(const Group& g, int64_t query, const float* shares, float* slopes, double* dtable) {
    double mean = 0;
    for (int64_t j = 0; j < g.keys; j++) mean += double(shares[j]) * double(slopes[j]);
    for (int64_t j = 0; j < g.keys; j++) slopes[j] = float(double(shares[j]) * (double(slopes[j]) - mean));
    for (int64_t j = 0; dtable && j < g.keys; j++) dtable[g.plan.distance(query, j) + g.head] += double(slopes[j]);
  }
};

}  // namespace

const KernelEntry attention = entry<Attention>();
const KernelEntry attention_bwd = entry<AttentionBackward>();
const KernelEntry attend = entry<Attention>();
const KernelEntry attend_bwd = entry<AttentionBackward>();

}  // namespace spillway::cpu
