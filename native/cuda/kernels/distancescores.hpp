// A table of scores for distances, computed by a small network, and its gradients. An item has one score, or one hidden value.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/distancescores.hpp"

namespace spillway::cuda {

template <>
struct Kernel<OpKind::distance_scores> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::DistanceScoresPlan p(c, 0);
    const float *const w1 = floats(c.ins[0]), *const b1 = floats(c.ins[1]), *const w2 = floats(c.ins[2]);
    const float* const b2 = c.n_ins > 3 ? floats(c.ins[3]) : nullptr;
    float* const y = floats(c.outs[0]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) {
      const int64_t row = i / p.heads, n = i % p.heads;
      double z = b2 ? double(b2[n]) : 0;
      for (int64_t k = 0; k < p.hidden; k++) z += double(w2[n * p.hidden + k]) * p.hidden_at(w1, b1, row, k);
      y[i] = float(p.bounded(z));
    });
  }
};

template <>
struct Kernel<OpKind::distance_scores_bwd> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::DistanceScoresPlan p(c, 2);
    const float *const y = floats(c.ins[0]), *const dy = floats(c.ins[1]);
    const float *const w1 = floats(c.ins[2]), *const b1 = floats(c.ins[3]), *const w2 = floats(c.ins[4]);
    float *const dw1 = floats(c.outs[0]), *const db1 = floats(c.outs[1]), *const dw2 = floats(c.outs[2]);
    float* const db2 = c.n_outs > 3 ? floats(c.outs[3]) : nullptr;
    const auto slope = [=] SPILLWAY_BOTH(int64_t row, int64_t n) {
      return double(dy[row * p.heads + n]) * p.slope(double(y[row * p.heads + n]));
    };
    exec.each(p.heads * p.hidden, [=] SPILLWAY_BOTH(uint32_t i) {
      double sum = 0;
      for (int64_t row = 0; row < p.rows(); row++) sum += slope(row, i / p.hidden) * p.hidden_at(w1, b1, row, i % p.hidden);
      dw2[i] = float(sum);
    });
    exec.each(p.hidden, [=] SPILLWAY_BOTH(uint32_t k) {
      double du = 0, dv = 0, sum = 0;
      for (int64_t row = 0; row < p.rows(); row++) {
        if (!(p.hidden_at(w1, b1, row, k) > 0)) continue;
        double back = 0;
        for (int64_t n = 0; n < p.heads; n++) back += slope(row, n) * double(w2[n * p.hidden + k]);
        du += back * p.u(row);
        dv += back * p.v(row);
        sum += back;
      }
      dw1[2 * k] = float(du);
      dw1[2 * k + 1] = float(dv);
      db1[k] = float(sum);
    });
    if (db2)
      exec.each(p.heads, [=] SPILLWAY_BOTH(uint32_t n) {
        double sum = 0;
        for (int64_t row = 0; row < p.rows(); row++) sum += slope(row, n);
        db2[n] = float(sum);
      });
  }
};

}  // namespace spillway::cuda
