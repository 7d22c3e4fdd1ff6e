// Attention within groups of pixels, and its gradient: a row of scores at a time.
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
  int64_t tokens = plan.tokens();

  template <class T>
  T& at(const Tensor<T>& t, int64_t token, int64_t channel) const {
    const int64_t pixel = plan.token(number, token).pixel;
    return t.at(image, channel, pixel / plan.width, pixel % plan.width);
  }
  template <class T>
  Rows rows(const Tensor<T>& t, int64_t first) const {
    Rows all(static_cast<size_t>(tokens), std::vector<double>(size_t(plan.head)));
    for (size_t i = 0; i < all.size(); i++)
      for (size_t e = 0; e < all[i].size(); e++) all[i][e] = double(at(t, int64_t(i), first + int64_t(e)));
    return all;
  }
  /// The shares of the keys for a query.
  template <class T>
  std::vector<double> shares(const std::vector<double>& query, const Rows& keys, int64_t i, const T* table) const {
    std::vector<double> scores(keys.size(), -INFINITY);
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < keys.size(); j++) {
      if (plan.token(number, i).side != plan.token(number, int64_t(j)).side) continue;
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
    const Tensor<T> x(c.ins[0]), y(c.outs[0]);
    const T* const table = c.n_ins > 1 ? static_cast<const T*>(c.ins[1].data) : nullptr;
    const ops::AttentionPlan plan(c);
    each_group(plan, [&](const Group& g) {
      const Rows q = g.rows(x, plan.channel(0, g.head)), k = g.rows(x, plan.channel(1, g.head)), v = g.rows(x, plan.channel(2, g.head));
      for (size_t i = 0; i < q.size(); i++) {
        const std::vector<double> p = g.shares(q[i], k, int64_t(i), table);
        for (int64_t e = 0; e < plan.head; e++) {
          double sum = 0;
          for (size_t j = 0; j < p.size(); j++) sum += p[j] * v[j][size_t(e)];
          g.at(y, int64_t(i), g.head * plan.head + e) = T(sum);
        }
      }
    });
  }
};

struct AttentionBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const Tensor<T> x(c.ins[0]), dy(c.ins[1]), dx(c.outs[0]);
    const T* const table = c.n_ins > 2 ? static_cast<const T*>(c.ins[2].data) : nullptr;
    const ops::AttentionPlan plan(c);
    std::vector<double> dtable(size_t(plan.distances() * plan.a.heads));
    each_group(plan, [&](const Group& g) {
      const Rows q = g.rows(x, plan.channel(0, g.head)), k = g.rows(x, plan.channel(1, g.head)), v = g.rows(x, plan.channel(2, g.head));
      const Rows dout = g.rows(dy, g.head * plan.head), none(q.size(), std::vector<double>(size_t(plan.head)));
      Rows d[3] = {none, none, none};
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
          dtable[size_t(plan.distance(int64_t(i), int64_t(j)) + g.head)] += ds;
          for (size_t e = 0; e < dout[i].size(); e++) {
            d[0][i][e] += plan.a.scale * ds * k[j][e];
            d[1][j][e] += plan.a.scale * ds * q[i][e];
            d[2][j][e] += p[j] * dout[i][e];
          }
        }
      }
      for (int64_t part = 0; part < 3; part++)
        for (int64_t i = 0; i < g.tokens; i++)
          for (int64_t e = 0; e < plan.head; e++) g.at(dx, i, plan.channel(part, g.head) + e) = T(d[part][size_t(i)][size_t(e)]);
    });
    for (size_t i = 0; c.n_outs > 1 && i < dtable.size(); i++) static_cast<T*>(c.outs[1].data)[i] = T(dtable[i]);
  }
};

}  // namespace

const KernelEntry attention = entry<Attention>();
const KernelEntry attention_bwd = entry<AttentionBackward>();

}  // namespace spillway::ref
