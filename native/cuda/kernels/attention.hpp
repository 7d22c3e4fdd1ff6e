// Attention within groups of pixels, or to the pixels of another value, and its gradient. An item has one query, or one key, of one head:
// its channels are in registers, and it walks the other tokens of its group once or twice. Neighbours of a warp read the same keys at the
// same time. No scores are stored; the gradient keeps three numbers for each query and head.
#pragma once
#include <cmath>

#include "cuda/kernels/kernel.hpp"
#include "ops/attention.hpp"

namespace spillway::cuda {

/// One query, or one key, of one head of one group of an image.
struct AttentionItem {
  int64_t image, group, head, token;
};

template <class T>
struct AttentionReader {
  ops::AttentionPlan plan;
  const T *x, *kv;
  const float* table;

  SPILLWAY_BOTH AttentionItem item(uint32_t i, int64_t of) const {
    const uint32_t tokens = uint32_t(of), groups = uint32_t(plan.groups()), rest = i / tokens;
    return {rest / groups / uint32_t(plan.a.heads), rest % groups, rest / groups % uint32_t(plan.a.heads), i % tokens};
  }
  SPILLWAY_BOTH AttentionItem query_item(uint32_t i) const { return item(i, plan.tokens()); }
  SPILLWAY_BOTH AttentionItem key_item(uint32_t i) const { return item(i, plan.keys()); }
  int64_t queries() const { return plan.images * plan.pixels() * plan.a.heads; }
  int64_t keys() const { return plan.images * plan.key_pixels() * plan.a.heads; }
  SPILLWAY_BOTH int64_t pixel(const AttentionItem& of, int64_t token) const {
    return of.image * plan.pixels() + plan.token(of.group, token).pixel;
  }
  SPILLWAY_BOTH int64_t key_pixel(const AttentionItem& of, int64_t key) const {
    return of.image * plan.key_pixels() + plan.key(of.group, key).pixel;
  }
  SPILLWAY_BOTH const T* query(const AttentionItem& of, int64_t token) const {
    return x + pixel(of, token) * plan.query_row() + plan.channel(0, of.head);
  }
  SPILLWAY_BOTH const T* key(const AttentionItem& of, int64_t key) const {
    return kv + key_pixel(of, key) * plan.key_row() + plan.channel(1, of.head);
  }
  SPILLWAY_BOTH const T* value(const AttentionItem& of, int64_t key) const {
    return kv + key_pixel(of, key) * plan.key_row() + plan.channel(2, of.head);
  }
  SPILLWAY_BOTH bool sees(const AttentionItem& of, int64_t query, int64_t key) const {
    return plan.token(of.group, query).side == plan.key(of.group, key).side;
  }
  SPILLWAY_BOTH float score(const AttentionItem& of, float product, int64_t query, int64_t key) const {
    return product * float(plan.a.scale) + (table ? table[plan.distance(query, key) + of.head] : 0.0f);
  }
};

template <class T>
AttentionReader<T> attention_reader(const KernelCall& c, uint32_t table) {
  const ops::AttentionPlan plan(c);
  return {plan, stored<T>(c.ins[0]), stored<T>(c.ins[plan.keys_at()]), plan.a.biased ? floats(c.ins[table]) : nullptr};
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
  exec.each(r.queries(), [=] SPILLWAY_BOTH(uint32_t i) {
    const AttentionItem of = r.query_item(i);
    const int64_t width = r.plan.head;
    HeadValues<HEAD> query, sum;
    query.read(r.query(of, of.token), width);
    sum.clear();
    float most = -INFINITY, total = 0;
    for (int64_t j = 0; j < r.plan.keys(); j++) {
      if (!r.sees(of, of.token, j)) continue;
      const float score = r.score(of, query.times(r.key(of, j), width), of.token, j);
      if (score > most) {
        const float shrink = expf(most - score);
        sum.scale(shrink);
        total *= shrink;
        most = score;
      }
      const float share = expf(score - most);
      total += share;
      sum.add(r.value(of, j), share, width);
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
  exec.each(g.r.queries(), [=] SPILLWAY_BOTH(uint32_t i) {
    const AttentionReader<T>& r = g.r;
    const AttentionItem of = r.query_item(i);
    const int64_t width = r.plan.head;
    HeadValues<HEAD> query, dout, sum;
    query.read(r.query(of, of.token), width);
    dout.read(g.gradient(of, of.token), width);
    float most = -INFINITY, total = 0, mean = 0;
    for (int64_t j = 0; j < r.plan.keys(); j++) {
      if (!r.sees(of, of.token, j)) continue;
      const float score = r.score(of, query.times(r.key(of, j), width), of.token, j);
      if (score > most) {
        const float shrink = expf(most - score);
        total *= shrink;
        mean *= shrink;
        most = score;
      }
      const float share = expf(score - most);
      total += share;
      mean += share * dout.times(r.value(of, j), width);
    }
    const AttentionRow row{most, 1.0f / total, mean / total};
    g.row(of, of.token) = row;
    sum.clear();
    for (int64_t j = 0; j < r.plan.keys(); j++) {
      if (!r.sees(of, of.token, j)) continue;
      const float score = r.score(of, query.times(r.key(of, j), width), of.token, j);
      const float slope = expf(score - row.most) * row.inverse * (dout.times(r.value(of, j), width) - row.mean);
      sum.add(r.key(of, j), slope * float(r.plan.a.scale), width);
    }
    sum.write(dx + r.pixel(of, of.token) * r.plan.query_row() + r.plan.channel(0, of.head), width);
  });
}

/// Writes dk and dv from the rows of all queries.
template <int HEAD, class T, class Exec>
void attend_back_keys(Exec& exec, const AttentionGradient<T>& g, T* dkv) {
  exec.each(g.r.keys(), [=] SPILLWAY_BOTH(uint32_t i) {
    const AttentionReader<T>& r = g.r;
    const AttentionItem of = r.key_item(i);
    const int64_t width = r.plan.head;
    HeadValues<HEAD> key, value, dkey, dvalue;
    key.read(r.key(of, of.token), width);
    value.read(r.value(of, of.token), width);
    dkey.clear();
    dvalue.clear();
    for (int64_t q = 0; q < r.plan.tokens(); q++) {
      if (!r.sees(of, q, of.token)) continue;
      const AttentionRow row = g.row(of, q);
      const float score = r.score(of, key.times(r.query(of, q), width), q, of.token);
      const float share = expf(score - row.most) * row.inverse;
      const T* const gradient = g.gradient(of, q);
      dvalue.add(gradient, share, width);
      dkey.add(r.query(of, q), share * (value.times(gradient, width) - row.mean) * float(r.plan.a.scale), width);
    }
    T* const to = dkv + r.key_pixel(of, of.token) * r.plan.key_row();
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
    const int64_t head = i % a.heads;
    double sum = 0;
    for (int64_t n = 0; n < r.plan.images * r.plan.groups(); n++)
      for (int64_t q = 0; q < r.plan.tokens(); q++)
        r.plan.each_key(i / a.heads, q, [&](int64_t k) {
          const AttentionItem of{n / r.plan.groups(), n % r.plan.groups(), head, q};
          if (!r.sees(of, q, k)) return;
          const T *const query = r.query(of, q), *const key = r.key(of, k), *const value = r.value(of, k);
          const T* const gradient = g.gradient(of, q);
          float product = 0, slope = 0;
          for (int64_t e = 0; e < r.plan.head; e++) {
            product += float(query[e]) * float(key[e]);
            slope += float(gradient[e]) * float(value[e]);
          }
          const AttentionRow row = g.row(of, q);
          sum += double(expf(r.score(of, product, q, k) - row.most) * row.inverse * (slope - row.mean));
        });
    dtable[i] = float(sum);
  });
}

template <int HEAD, class T, class Exec>
void attend_back(Exec& exec, const KernelCall& c) {
  const AttentionReader<T> r = attention_reader<T>(c, 2);
  const AttentionGradient<T> g{r, stored<T>(c.ins[r.plan.gradient_at()]), static_cast<AttentionRow*>(c.workspace)};
  attend_back_queries<HEAD>(exec, g, stored<T>(c.outs[0]));
  attend_back_keys<HEAD>(exec, g, stored<T>(c.outs[r.plan.keys_at()]));
  if (r.table) attend_back_table(exec, g, floats(c.outs[1]));
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

template <>
struct Kernel<OpKind::attend> : Kernel<OpKind::attention> {};

template <>
struct Kernel<OpKind::attend_bwd> : Kernel<OpKind::attention_bwd> {};

}  // namespace spillway::cuda
