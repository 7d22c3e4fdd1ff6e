// A table of scores for distances, computed by a small network, and its gradients. The table is small: one thread is enough for a sum.
#include "ops/distancescores.hpp"

#include <vector>

#include "cpu/kernels.hpp"

namespace spillway::cpu {
namespace {

struct DistanceScores : PlainKernel {
  static void run(const KernelCall& c) {
    const ops::DistanceScoresPlan p(c, 0);
    const float *const w1 = floats(c.ins[0]), *const b1 = floats(c.ins[1]), *const w2 = floats(c.ins[2]);
    const float* const b2 = c.n_ins > 3 ? floats(c.ins[3]) : nullptr;
    float* const y = floats(c.outs[0]);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < p.rows(); row++) {
      std::vector<double> hidden(static_cast<size_t>(p.hidden));
      for (int64_t k = 0; k < p.hidden; k++) hidden[size_t(k)] = p.hidden_at(w1, b1, row, k);
      for (int64_t n = 0; n < p.heads; n++) {
        double z = b2 ? double(b2[n]) : 0;
        for (int64_t k = 0; k < p.hidden; k++) z += double(w2[n * p.hidden + k]) * hidden[size_t(k)];
        y[row * p.heads + n] = float(p.bounded(z));
      }
    }
  }
};

struct DistanceScoresBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const ops::DistanceScoresPlan p(c, 2);
    const float *const y = floats(c.ins[0]), *const dy = floats(c.ins[1]);
    const float *const w1 = floats(c.ins[2]), *const b1 = floats(c.ins[3]), *const w2 = floats(c.ins[4]);
    const auto slope = [&](int64_t row, int64_t n) { return double(dy[row * p.heads + n]) * p.slope(double(y[row * p.heads + n])); };
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < p.hidden; k++) {
      double du = 0, dv = 0, sum = 0;
      std::vector<double> dw2(static_cast<size_t>(p.heads));
      for (int64_t row = 0; row < p.rows(); row++) {
        const double hidden = p.hidden_at(w1, b1, row, k);
        if (!(hidden > 0)) continue;
        double back = 0;
        for (int64_t n = 0; n < p.heads; n++) {
          back += slope(row, n) * double(w2[n * p.hidden + k]);
          dw2[size_t(n)] += slope(row, n) * hidden;
        }
        du += back * p.u(row);
        dv += back * p.v(row);
        sum += back;
      }
      floats(c.outs[0])[2 * k] = float(du);
      floats(c.outs[0])[2 * k + 1] = float(dv);
      floats(c.outs[1])[k] = float(sum);
      for (int64_t n = 0; n < p.heads; n++) floats(c.outs[2])[n * p.hidden + k] = float(dw2[size_t(n)]);
    }
    for (int64_t n = 0; c.n_outs > 3 && n < p.heads; n++) {
      double sum = 0;
      for (int64_t row = 0; row < p.rows(); row++) sum += slope(row, n);
      floats(c.outs[3])[n] = float(sum);
    }
  }
};

}  // namespace

const KernelEntry distance_scores = entry<DistanceScores>();
const KernelEntry distance_scores_bwd = entry<DistanceScoresBackward>();

}  // namespace spillway::cpu
