// Attention within groups of pixels, and its gradient. An item has one query, or one key, of one head: its channels are in registers, and
// it walks the other tokens of its group once or twice. Neighbours of a warp read the same keys at the same time. No scores are stored; the
// gradient keeps three numbers for each query and head.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/attention.hpp"

namespace spillway::cuda {

/// One token of one head of one group of an image.
struct AttentionItem {
  int64_t image, group, head, token;
};

template <class T>
struct AttentionReader {
  ops::AttentionPlan plan;
  const T* x;
  const float* table;

  SPILLWAY_BOTH AttentionItem item(uint32_t i) const {
    const uint32_t tokens = uint32_t(plan.tokens()), groups = uint32_t(plan.groups()), rest = i / tokens;
    return {rest / groups / uint32_t(plan.a.heads), rest % groups, rest / groups % uint32_t(plan.a.heads), i % tokens};
  }
  int64_t items() const { return plan.images * plan.pixels() * plan.a.heads; }
  SPILLWAY_BOTH int64_t pixel(const AttentionItem& of, int64_t token) const {
    return of.image * plan.pixels() + plan.token(of.group, token).pixel;
  }
  SPILLWAY_BOTH const T* part(const AttentionItem& of, int64_t token, int64_t part) const {
    return x + pixel(of, token) * 3 * plan.channels() + plan.channel(part, of.head);
  }
  SPILLWAY_BOTH bool sees(const AttentionItem& of, int64_t query, int64_t key) const {
    return plan.token(of.group, query).side == plan.token(of.group, key).side;
  }
  SPILLWAY_BOTH float score(const AttentionItem& of, float product, int64_t query, int64_t key) const {
    return product * float(plan.a.scale) + (table ? table[plan.distance(query, key) + of.head] : 0.0f);
  }
};

template <class T>
AttentionReader<T> attention_reader(const KernelCall& c, uint32_t table) {
  return {ops::AttentionPlan(c), stored<T>(c.ins[0]), c.n_ins > table ? floats(c.ins[table]) : nullptr};
}

/// The channels of a head, and sums of as many.
template <int HEAD>
struct HeadValues {
  float v[HEAD];
  template <class T>
  SPILLWAY_BOTH void read(const T* from, int64_t width) {
    for (int e = 0; e < HEAD; e++) v[e] = e < width ? float(from[e]) : 0.0f;
  }
  SPILLWAY_BOTH void clear() {
    for (int e = 0; e < HEAD; e++) v[e] = 0.0f;
  }
  template <class T>
  SPILLWAY_BOTH float times(const T* with, int64_t width) const {
    float sum = 0;
    for (int e = 0; e < HEAD; e++)
      if (e < width) sum += v[e] * float(with[e]);
    return sum;
  }
  template <class T>
  SPILLWAY_BOTH void add(const T* from, float factor, int64_t width) {
    for (int e = 0; e < HEAD; e++)
      if (e < width) v[e] += factor * float(from[e]);
  }
  SPILLWAY_BOTH void scale(float factor) {
    for (int e = 0; e < HEAD; e++) v[e] *= factor;
  }
  template <class T>
  SPILLWAY_BOTH void write(T* to, int64_t width) const {
    for (int e = 0; e < HEAD; e++)
      if (e < width) to[e] = v[e];
  }
};

template <int HEAD, class T, class Exec>
void attend(Exec& exec, const KernelCall& c) {
  const AttentionReader<T> r = attention_reader<T>(c, 1);
  T* const y = stored<T>(c.outs[0]);
  exec.each(r.items(), [=] SPILLWAY_BOTH(uint32_t i) {
    const AttentionItem of = r.item(i);
    const int64_t width = r.plan.head;
    HeadValues<HEAD> query, sum;
    query.read(r.part(of, of.token, 0), width);
    sum.clear();
    float most = -INFINITY, total = 0;
    for (int64_t j = 0; j < r.plan.tokens(); j++) {
      if (!r.sees(of, of.token, j)) continue;
      const float score = r.score(of, query.times(r.part(of, j, 1), width), of.token, j);
      if (score > most) {
        const float shrink = expf(most - score);
        sum.scale(shrink);
        total *= shrink;
        most = score;
      }
      const float share = expf(score - most);
      total += share;
      sum.add(r.part(of, j, 2), share, width);
    }
    sum.scale(1.0f / total);
    sum.write(y + r.pixel(of, of.token) * r.plan.channels() + of.head * width, width);
  });
}

/// The highest score of a query, the inverse of its sum of shares, and the mean of their gradients.
struct AttentionRow {
  float most, inverse, mean;
};

template <class T>
struct AttentionGradient {
  AttentionReader<T> r;
  const T* dy;
  AttentionRow* rows;

  SPILLWAY_BOTH const T* gradient(const AttentionItem& of, int64_t token) const {
    return dy + r.pixel(of, token) * r.plan.channels() + of.head * r.plan.head;
  }
  SPILLWAY_BOTH AttentionRow& row(const AttentionItem& of, int64_t token) const {
    return rows[(r.plan.a.heads * of.image + of.head) * r.plan.pixels() + of.group * r.plan.tokens() + token];
  }
};

/// Writes dq, and the row of each query.
template <int HEAD, class T, class Exec>
void attend_back_queries(Exec& exec, const AttentionGradient<T>& g, T* dx) {
  exec.each(g.r.items(), [=] SPILLWAY_BOTH(uint32_t i) {
    const AttentionReader<T>& r = g.r;
    const AttentionItem of = r.item(i);
    const int64_t width = r.plan.head;
    HeadValues<HEAD> query, dout, sum;
    query.read(r.part(of, of.token, 0), width);
    dout.read(g.gradient(of, of.token), width);
    float most = -INFINITY, total = 0, mean = 0;
    for (int64_t j = 0; j < r.plan.tokens(); j++) {
      if (!r.sees(of, of.token, j)) continue;
      const float score = r.score(of, query.times(r.part(of, j, 1), width), of.token, j);
      if (score > most) {
        const float shrink = expf(most - score);
        total *= shrink;
        mean *= shrink;
        most = score;
      }
      const float share = expf(score - most);
      total += share;
      mean += share * dout.times(r.part(of, j, 2), width);
    }
    const AttentionRow row{most, 1.0f / total, mean / total};
    g.row(of, of.token) = row;
    sum.clear();
    for (int64_t j = 0; j < r.plan.tokens(); j++) {
      if (!r.sees(of, of.token, j)) continue;
      const float score = r.score(of, query.times(r.part(of, j, 1), width), of.token, j);
      const float slope = expf(score - row.most) * row.inverse * (dout.times(r.part(of, j, 2), width) - row.mean);
      sum.add(r.part(of, j, 1), slope * float(r.plan.a.scale), width);
    }
    sum.write(dx + r.pixel(of, of.token) * 3 * r.plan.channels() + r.plan.channel(0, of.head), width);
  });
}

/// Writes dk and dv from the rows of all queries.
template <int HEAD, class T, class Exec>
void attend_back_keys(Exec& exec, const AttentionGradient<T>& g, T* dx) {
  exec.each(g.r.items(), [=] SPILLWAY_BOTH(uint32_t i) {
    const AttentionReader<T>& r = g.r;
    const AttentionItem of = r.item(i);
    const int64_t width = r.plan.head;
    HeadValues<HEAD> key, value, dkey, dvalue;
    key.read(r.part(of, of.token, 1), width);
    value.read(r.part(of, of.token, 2), width);
    dkey.clear();
    dvalue.clear();
    for (int64_t q = 0; q < r.plan.tokens(); q++) {
      if (!r.sees(of, q, of.token)) continue;
      const AttentionRow row = g.row(of, q);
      const float score = r.score(of, key.times(r.part(of, q, 0), width), q, of.token);
      const float share = expf(score - row.most) * row.inverse;
      const T* const gradient = g.gradient(of, q);
      dvalue.add(gradient, share, width);
      dkey.add(r.part(of, q, 0), share * (value.times(gradient, width) - row.mean) * float(r.plan.a.scale), width);
    }
    T* const to = dx + r.pixel(of, of.token) * 3 * r.plan.channels();
    dkey.write(to + r.plan.channel(1, of.head), width);
    dvalue.write(to + r.plan.channel(2, of.head), width);
  });
}

/// An item has one number of the table, and all pairs of tokens that read it.
template <class T, class Exec>
void attend_back_table(Exec& exec, const AttentionGradient<T>& g, float* dtable) {
  exec.each(g.r.plan.distances() * g.r.plan.a.heads, [=] SPILLWAY_BOTH(uint32_t i) {
    const AttentionReader<T>& r = g.r;
    const auto& a = r.plan.a;
    const int64_t head = i % a.heads, distance = i / a.heads;
    const int64_t rows = distance / (2 * a.window_w - 1) - a.window_h + 1, columns = distance % (2 * a.window_w - 1) - a.window_w + 1;
    double sum = 0;
    for (int64_t n = 0; n < r.plan.images * r.plan.groups(); n++)
      for (int64_t q = 0; q < r.plan.tokens(); q++) {
        const int64_t h = q / a.window_w - rows, w = q % a.window_w - columns, k = h * a.window_w + w;
        const AttentionItem of{n / r.plan.groups(), n % r.plan.groups(), head, q};
        if (h < 0 || h >= a.window_h || w < 0 || w >= a.window_w || !r.sees(of, q, k)) continue;
        const T *const query = r.part(of, q, 0), *const key = r.part(of, k, 1), *const value = r.part(of, k, 2);
        const T* const gradient = g.gradient(of, q);
        float product = 0, slope = 0;
        for (int64_t e = 0; e < r.plan.head; e++) {
          product += float(query[e]) * float(key[e]);
          slope += float(gradient[e]) * float(value[e]);
        }
        const AttentionRow row = g.row(of, q);
        sum += double(expf(r.score(of, product, q, k) - row.most) * row.inverse * (slope - row.mean));
      }
    dtable[i] = float(sum);
  });
}

template <int HEAD, class T, class Exec>
void attend_back(Exec& exec, const KernelCall& c) {
  const AttentionGradient<T> g{attention_reader<T>(c, 2), stored<T>(c.ins[1]), static_cast<AttentionRow*>(c.workspace)};
  T* const dx = stored<T>(c.outs[0]);
  attend_back_queries<HEAD>(exec, g, dx);
  attend_back_keys<HEAD>(exec, g, dx);
  if (c.n_outs > 1) attend_back_table(exec, g, floats(c.outs[1]));
}

template <>
struct Kernel<OpKind::attention> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const int64_t head = ops::AttentionPlan(c).head;
    if (head <= 32) return attend<32, T>(exec, c);
    if (head <= 64) return attend<64, T>(exec, c);
    attend<256, T>(exec, c);
  }
};

template <>
struct Kernel<OpKind::attention_bwd> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    const ops::AttentionPlan plan(c);
    return plan.images * plan.pixels() * plan.a.heads * int64_t(sizeof(AttentionRow));
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const int64_t head = ops::AttentionPlan(c).head;
    if (head <= 32) return attend_back<32, T>(exec, c);
    if (head <= 64) return attend_back<64, T>(exec, c);
    attend_back<256, T>(exec, c);
  }
};

}  // namespace spillway::cuda
