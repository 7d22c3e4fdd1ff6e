// Attention within groups of pixels, or to the pixels of another value, and its gradient: a row of scores at a time.
#include <cmath>
#include <vector>

#include "ops/attention.hpp"
#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

using Rows = std::vector<std::vector<double>>;

/// The queries, keys and values of one head in one group of one image.
struct Group {
  const ops::AttentionPlan& plan;
  int64_t image, number, head;

  template <class T>
  T& at_query(const Tensor<T>& t, int64_t token, int64_t channel) const {
    const int64_t pixel = plan.token(number, token).pixel;
    return t.at(image, channel, pixel / plan.width, pixel % plan.width);
  }
  template <class T>
  T& at_key(const Tensor<T>& t, int64_t key, int64_t channel) const {
    const int64_t pixel = plan.key(number, key).pixel;
    return t.at(image, channel, pixel / plan.key_width, pixel % plan.key_width);
  }
  Rows none(int64_t count) const { return Rows(static_cast<size_t>(count), std::vector<double>(size_t(plan.head))); }
  template <class T>
  Rows queries(const Tensor<T>& t, int64_t first) const {
    Rows all = none(plan.tokens());
    for (size_t i = 0; i < all.size(); i++)
      for (size_t e = 0; e < all[i].size(); e++) all[i][e] = double(at_query(t, int64_t(i), first + int64_t(e)));
    return all;
  }
  template <class T>
  Rows keys(const Tensor<T>& t, int64_t part) const {
    Rows all = none(plan.keys());
    for (size_t i = 0; i < all.size(); i++)
      for (size_t e = 0; e < all[i].size(); e++) all[i][e] = double(at_key(t, int64_t(i), plan.channel(part, head) + int64_t(e)));
    return all;
  }
  /// The shares of the keys for a query.
  template <class T>
  std::vector<double> shares(const std::vector<double>& query, const Rows& keys, int64_t i, const T* table) const {
    std::vector<double> scores(keys.size(), -INFINITY);
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < keys.size(); j++) {
      if (plan.token(number, i).side != plan.key(number, int64_t(j)).side) continue;
      double product = 0;
      for (size_t e = 0; e < query.size(); e++) product += query[e] * keys[j][e];
      scores[j] = product * plan.a.scale + (table ? double(table[plan.distance(i, int64_t(j)) + head]) : 0);
      most = std::max(most, scores[j]);
    }
    for (double& s : scores) sum += s = std::exp(s - most);
    for (double& s : scores) s /= sum;
    return scores;
  }
};

template <class F>
void each_group(const ops::AttentionPlan& plan, F f) {
  for (int64_t b = 0; b < plan.images; b++)
    for (int64_t g = 0; g < plan.groups(); g++)
      for (int64_t h = 0; h < plan.a.heads; h++) f(Group{plan, b, g, h});
}

struct Attention {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::AttentionPlan plan(c);
    const Tensor<T> x(c.ins[0]), kv(c.ins[plan.keys_at()]), y(c.outs[0]);
    const T* const table = plan.a.biased ? static_cast<const T*>(c.ins[1].data) : nullptr;
    each_group(plan, [&](const Group& g) {
      const Rows q = g.queries(x, plan.channel(0, g.head)), k = g.keys(kv, 1), v = g.keys(kv, 2);
      for (size_t i = 0; i < q.size(); i++) {
        const std::vector<double> p = g.shares(q[i], k, int64_t(i), table);
        for (int64_t e = 0; e < plan.head; e++) {
          double sum = 0;
          for (size_t j = 0; j < p.size(); j++) sum += p[j] * v[j][size_t(e)];
          g.at_query(y, int64_t(i), g.head * plan.head + e) = T(sum);
        }
      }
    });
  }
};

struct AttentionBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::AttentionPlan plan(c);
    const Tensor<T> x(c.ins[0]), kv(c.ins[plan.keys_at()]), dy(c.ins[plan.gradient_at()]), dx(c.outs[0]), dkv(c.outs[plan.keys_at()]);
    const T* const table = plan.a.biased ? static_cast<const T*>(c.ins[2].data) : nullptr;
    std::vector<double> dtable(table ? size_t(plan.distances() * plan.a.heads) : 0);
    each_group(plan, [&](const Group& g) {
      const Rows q = g.queries(x, plan.channel(0, g.head)), k = g.keys(kv, 1), v = g.keys(kv, 2);
      const Rows dout = g.queries(dy, g.head * plan.head);
      Rows dq = g.none(plan.tokens()), dk = g.none(plan.keys()), dv = dk;
      for (size_t i = 0; i < q.size(); i++) {
        const std::vector<double> p = g.shares(q[i], k, int64_t(i), table);
        std::vector<double> dp(p.size());
        double mean = 0;
        for (size_t j = 0; j < p.size(); j++) {
          for (size_t e = 0; e < dout[i].size(); e++) dp[j] += dout[i][e] * v[j][e];
          mean += p[j] * dp[j];
        }
        for (size_t j = 0; j < p.size(); j++) {
          const double ds = p[j] * (dp[j] - mean);
          if (table) dtable[size_t(plan.distance(int64_t(i), int64_t(j)) + g.head)] += ds;
          for (size_t e = 0; e < dout[i].size(); e++) {
            dq[i][e] += plan.a.scale * ds * k[j][e];
            dk[j][e] += plan.a.scale * ds * q[i][e];
            dv[j][e] += p[j] * dout[i][e];
          }
        }
      }
      for (int64_t e = 0; e < plan.head; e++) {
        for (size_t i = 0; i < dq.size(); i++) g.at_query(dx, int64_t(i), plan.channel(0, g.head) + e) = T(dq[i][size_t(e)]);
        for (size_t j = 0; j < dk.size(); j++) {
          g.at_key(dkv, int64_t(j), plan.channel(1, g.head) + e) = T(dk[j][size_t(e)]);
          g.at_key(dkv, int64_t(j), plan.channel(2, g.head) + e) = T(dv[j][size_t(e)]);
        }
      }
    });
    for (size_t i = 0; table && i < dtable.size(); i++) static_cast<T*>(c.outs[1].data)[i] = T(dtable[i]);
  }
};

}  // namespace

const KernelEntry attention = entry<Attention>();
const KernelEntry attention_bwd = entry<AttentionBackward>();
const KernelEntry attend = entry<Attention>();
const KernelEntry attend_bwd = entry<AttentionBackward>();

}  // namespace spillway::ref
