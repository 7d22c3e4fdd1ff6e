// Weight standardisation and its gradient: a thread has a row at a time, sums in double.
#include "ops/standardize.hpp"

#include <cmath>

#include "cpu/kernels.hpp"

namespace spillway::cpu {
namespace {

struct Row {
  double mean = 0, rstd = 0;
  Row(const float* w, int64_t size, double eps) {
    double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; i++) sum += double(w[i]);
    mean = sum / double(size);
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < size; i++) squares += (double(w[i]) - mean) * (double(w[i]) - mean);
    rstd = 1 / std::sqrt(squares / double(size) + eps);
  }
};

struct Standardize : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View& v = c.ins[0];
    const double eps = StandardizeAttrs::read(c.attrs).eps;
    const int64_t channels = v.dims[1], window = v.dims[2] * v.dims[3], size = ops::row_size(v);
    T* const y = static_cast<T*>(c.outs[0].data);
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < v.dims[0]; o++) {
      const float* const w = floats(v) + o * size;
      const Row row(w, size, eps);
      T* to = y + o * size;
      for (int64_t at = 0; at < window; at++)
        for (int64_t i = 0; i < channels; i++) *to++ = T(float((double(w[i * window + at]) - row.mean) * row.rstd));
    }
  }
};

struct StandardizeBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const double eps = StandardizeBwdAttrs::read(c.attrs).eps;
    const int64_t size = ops::row_size(c.ins[1]);
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < c.ins[1].dims[0]; o++) {
      const float *const dy = floats(c.ins[0]) + o * size, *const w = floats(c.ins[1]) + o * size;
      float* const dw = floats(c.outs[0]) + o * size;
      const Row row(w, size, eps);
      double plain = 0, products = 0;
#pragma omp simd reduction(+ : plain, products)
      for (int64_t i = 0; i < size; i++) {
        plain += double(dy[i]);
        products += double(dy[i]) * (double(w[i]) - row.mean);
      }
      const double offset = plain / double(size), tilt = products * row.rstd * row.rstd / double(size);
#pragma omp simd
      for (int64_t i = 0; i < size; i++) dw[i] = float(row.rstd * (double(dy[i]) - offset - (double(w[i]) - row.mean) * tilt));
    }
  }
};

}  // namespace

const KernelEntry standardize = entry<Standardize>();
const KernelEntry standardize_bwd = entry<StandardizeBackward>();

}  // namespace spillway::cpu
