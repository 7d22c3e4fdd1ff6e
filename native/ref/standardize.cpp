// Weight standardisation and its gradient, row by row.
#include "ops/standardize.hpp"

#include <cmath>

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

struct Row {
  double mean = 0, rstd = 0;
  template <class T>
  Row(const Tensor<T>& w, int64_t first, int64_t size, double eps) {
    double squares = 0;
    for (int64_t i = first; i < first + size; i++) mean += double(w[i]);
    mean /= double(size);
    for (int64_t i = first; i < first + size; i++) squares += (double(w[i]) - mean) * (double(w[i]) - mean);
    rstd = 1 / std::sqrt(squares / double(size) + eps);
  }
};

struct Standardize {
  static constexpr bool works_on_half = true;
  template <class T>
  static void run(const KernelCall& c) {
    const double eps = StandardizeAttrs::read(c.attrs).eps;
    const Tensor<T> y(c.outs[0]);
    const int64_t size = ops::row_size(c.ins[0]);
    const auto fill = [&](const auto& w) {
      for (int64_t o = 0; o < c.ins[0].dims[0]; o++) {
        const Row row(w, o * size, size, eps);
        for (int64_t i = 0; i < c.ins[0].dims[1]; i++)
          for (int64_t ky = 0; ky < c.ins[0].dims[2]; ky++)
            for (int64_t kx = 0; kx < c.ins[0].dims[3]; kx++) y.at(o, i, ky, kx) = T((double(w.at(o, i, ky, kx)) - row.mean) * row.rstd);
      }
    };
    if (c.ins[0].dtype == DType::f64)
      fill(Tensor<double>(c.ins[0]));
    else
      fill(Tensor<float>(c.ins[0]));
  }
};

struct StandardizeBackward {
  template <class T>
  static void run(const KernelCall& c) {
    const double eps = StandardizeBwdAttrs::read(c.attrs).eps;
    const Tensor<T> dy(c.ins[0]), w(c.ins[1]), dw(c.outs[0]);
    const int64_t size = ops::row_size(c.ins[1]);
    for (int64_t o = 0; o < c.ins[1].dims[0]; o++) {
      const int64_t first = o * size;
      const Row row(w, first, size, eps);
      double plain = 0, products = 0;
      for (int64_t i = first; i < first + size; i++) {
        plain += double(dy[i]);
        products += double(dy[i]) * (double(w[i]) - row.mean) * row.rstd;
      }
      for (int64_t i = first; i < first + size; i++) {
        const double normal = (double(w[i]) - row.mean) * row.rstd;
        dw[i] = T(row.rstd * (double(dy[i]) - plain / double(size) - normal * products / double(size)));
      }
    }
  }
};

}  // namespace

const KernelEntry standardize = entry<Standardize>();
const KernelEntry standardize_bwd = entry<StandardizeBackward>();

}  // namespace spillway::ref
