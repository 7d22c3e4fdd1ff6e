// A trained value added to each channel or element, and its gradient.
#include "ops/shift.hpp"

#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"

namespace spillway::cpu {
namespace {

struct Shift : PlainKernel {
  static void run(const KernelCall& call) {
    const View &x = call.ins[0], &y = call.outs[0];
    const ops::ShiftPlan plan(call, x);
    const float* const p = floats(call.ins[1]);
    if (plan.elements == 0)
      return map_channels<0, 1>({&x, 1}, {}, {p + x.origin[1]}, y, [](const auto& value, const auto& own) { return value[0] + own[0]; });
    with_element(y, [&](auto element) { each_element<decltype(element)>(x, y, plan, p); });
  }

 private:
  template <class T>
  static void each_element(const View& x, const View& y, const ops::ShiftPlan& plan, const float* p) {
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t h = 0; h < y.dims[2]; h++)
      for (int64_t w = 0; w < y.dims[3]; w++)
        for (int64_t b = 0; b < y.dims[0]; b++) {
          const T* const from = pixel_of<T>(x, b, h, w);
          T* const to = pixel_of<T>(y, b, h, w);
          for (int64_t c = 0; c < y.dims[1]; c++) to[c] = T(float(from[c]) + p[plan.at(c + y.origin[1], h + y.origin[2], w + y.origin[3])]);
        }
  }
};

struct ShiftBackward : PlainKernel {
  static int64_t workspace(const KernelCall& call) { return channel_sums_bytes<1>(call.ins[0]); }
  static void run(const KernelCall& call) {
    const View &dy = call.ins[0], &dp = call.outs[0];
    const ops::ShiftPlan plan(call, dy);
    float* const sums = floats(dp);
    std::fill_n(sums, ops::elements(dp), 0.0f);
    if (plan.elements == 0) {
      double* const totals = static_cast<double*>(call.workspace);
      channel_sums<float, 1>(Summands<1, 0>{{&dy, 1}, {}, {}}, totals,
                             [](const auto& element, const auto&) { return std::array{element[0]}; });
      for (int64_t c = 0; c < dy.dims[1]; c++) sums[c + dy.origin[1]] = float(totals[c]);
    } else {
      with_element(dy, [&](auto element) { each_element<decltype(element)>(dy, plan, sums); });
    }
  }

 private:
  template <class T>
  static void each_element(const View& dy, const ops::ShiftPlan& plan, float* sums) {
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t h = 0; h < dy.dims[2]; h++)
      for (int64_t w = 0; w < dy.dims[3]; w++)
        for (int64_t c = 0; c < dy.dims[1]; c++) {
          double total = 0;
          for (int64_t b = 0; b < dy.dims[0]; b++) total += double(float(pixel_of<T>(dy, b, h, w)[c]));
          sums[plan.at(c + dy.origin[1], h + dy.origin[2], w + dy.origin[3])] = float(total);
        }
  }
};

}  // namespace

const KernelEntry shift = entry<Shift>();
const KernelEntry shift_bwd = entry<ShiftBackward>();

}  // namespace spillway::cpu
