// A table of scores for distances, computed by a small network, and its gradients.
#include "ops/distancescores.hpp"

#include <vector>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

template <class T>
T* numbers(const View& v) {
  return static_cast<T*>(v.data);
}

struct DistanceScores {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::DistanceScoresPlan p(c, 0);
    const T *const w1 = numbers<T>(c.ins[0]), *const b1 = numbers<T>(c.ins[1]), *const w2 = numbers<T>(c.ins[2]);
    for (int64_t row = 0; row < p.rows(); row++)
      for (int64_t n = 0; n < p.heads; n++) {
        double z = c.n_ins > 3 ? double(numbers<T>(c.ins[3])[n]) : 0;
        for (int64_t k = 0; k < p.hidden; k++) z += double(w2[n * p.hidden + k]) * p.hidden_at(w1, b1, row, k);
        numbers<T>(c.outs[0])[row * p.heads + n] = T(p.bounded(z));
      }
  }
};

struct DistanceScoresBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const ops::DistanceScoresPlan p(c, 2);
    const T *const y = numbers<T>(c.ins[0]), *const dy = numbers<T>(c.ins[1]);
    const T *const w1 = numbers<T>(c.ins[2]), *const b1 = numbers<T>(c.ins[3]), *const w2 = numbers<T>(c.ins[4]);
    std::vector<double> dw1(size_t(2 * p.hidden)), db1(static_cast<size_t>(p.hidden)), dw2(size_t(p.heads * p.hidden)),
        db2(static_cast<size_t>(p.heads));
    for (int64_t row = 0; row < p.rows(); row++)
      for (int64_t n = 0; n < p.heads; n++) {
        const double dz = double(dy[row * p.heads + n]) * p.slope(double(y[row * p.heads + n]));
        db2[size_t(n)] += dz;
        for (int64_t k = 0; k < p.hidden; k++) {
          const double hidden = p.hidden_at(w1, b1, row, k), back = hidden > 0 ? dz * double(w2[n * p.hidden + k]) : 0;
          dw2[size_t(n * p.hidden + k)] += dz * hidden;
          dw1[size_t(2 * k)] += back * p.u(row);
          dw1[size_t(2 * k + 1)] += back * p.v(row);
          db1[size_t(k)] += back;
        }
      }
    const std::vector<double>* const all[] = {&dw1, &db1, &dw2, &db2};
    for (uint32_t i = 0; i < c.n_outs; i++)
      for (size_t j = 0; j < all[i]->size(); j++) numbers<T>(c.outs[i])[j] = T((*all[i])[j]);
  }
};

}  // namespace

const KernelEntry distance_scores = entry<DistanceScores>();
const KernelEntry distance_scores_bwd = entry<DistanceScoresBackward>();

}  // namespace spillway::ref
