// Queries and keys of unit length, and their gradients. Sums of a head's factor are of blocks of rows, merged in order.
#include "ops/unitheads.hpp"

#include "cpu/channel_sums.hpp"

namespace spillway::cpu {
namespace {

struct UnitHeads : PlainKernel {
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const ops::UnitHeadsPlan plan(c);
    const float* const p = floats(c.ins[1]);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const T* const from = pixel_of<T>(x, b, h, w);
          T* const to = pixel_of<T>(y, b, h, w);
          for (int64_t n = 0; n < plan.a.heads; n++)
            for (int64_t part = 0; part < 3; part++) {
              const int64_t first = plan.channel(part, n);
              const double factor = part == 2 ? 1 : plan.inverse(from + first) * (part == 0 ? plan.scale(double(p[n])) : 1);
              for (int64_t e = first; e < first + plan.head; e++) to[e] = T(float(double(float(from[e])) * factor));
            }
        }
  }
};

struct UnitHeadsBackward : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return sum_blocks(c.ins[0]) * ops::UnitHeadsPlan(c).a.heads * int64_t(sizeof(double)); }
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &dy = c.ins[1], &dx = c.outs[0];
    const ops::UnitHeadsPlan plan(c);
    const float* const p = floats(c.ins[2]);
    const int64_t rows = x.dims[0] * x.dims[2], blocks = sum_blocks(x), heads = plan.a.heads;
    double* const scratch = static_cast<double*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
      double* const sums = scratch + block * heads;
      std::fill_n(sums, heads, 0.0);
      for (int64_t row = block * rows / blocks; row < (block + 1) * rows / blocks; row++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const int64_t b = row / x.dims[2], h = row % x.dims[2];
          of_pixel(plan, pixel_of<T>(x, b, h, w), pixel_of<T>(dy, b, h, w), pixel_of<T>(dx, b, h, w), p, sums);
        }
    }
    for (int64_t n = 0; n < heads; n++) {
      double total = 0;
      for (int64_t block = 0; block < blocks; block++) total += scratch[block * heads + n];
      floats(c.outs[1])[n] = float(total);
    }
  }

 private:
  template <class T>
  static void of_pixel(const ops::UnitHeadsPlan& plan, const T* x, const T* dy, T* dx, const float* p, double* sums) {
    for (int64_t n = 0; n < plan.a.heads; n++)
      for (int64_t part = 0; part < 3; part++) {
        const int64_t first = plan.channel(part, n);
        if (part == 2) {
          for (int64_t e = first; e < first + plan.head; e++) dx[e] = dy[e];
          continue;
        }
        const double inverse = plan.inverse(x + first), scale = part == 0 ? plan.scale(double(p[n])) : 1;
        double product = 0;
        for (int64_t e = first; e < first + plan.head; e++) product += double(float(x[e])) * inverse * double(float(dy[e]));
        if (part == 0 && !(double(p[n]) > plan.a.most)) sums[n] += product * scale;
        for (int64_t e = first; e < first + plan.head; e++)
          dx[e] = T(float(scale * inverse * (double(float(dy[e])) - double(float(x[e])) * inverse * product)));
      }
  }
};

}  // namespace

const KernelEntry unit_heads = entry<UnitHeads>();
const KernelEntry unit_heads_bwd = entry<UnitHeadsBackward>();

}  // namespace spillway::cpu
