// Sums of equal boxes, and of gradients that cover parts of a box (zero outside). In place of the first input where the plan
// says so: an element is written after its own inputs are read.
#pragma once
#include "cuda/kernels/kernel.hpp"
#include "ops/add.hpp"

namespace spillway::cuda {

template <class T, class Exec>
void add_to(Exec& exec, const View& y, const View& x) {
  map<T, 2>(exec, y, {&y, &x}, [=] SPILLWAY_BOTH(const float* v, uint32_t) { return v[0] + v[1]; });
}

template <class T, class Exec>
void add_pair(Exec& exec, const View& y, const View& a, const View& b) {
  map<T, 2>(exec, y, {&a, &b}, [=] SPILLWAY_BOTH(const float* v, uint32_t) { return v[0] + v[1]; });
}

template <class T, class Exec>
void copy_box(Exec& exec, const View& y, const View& x) {
  if (y.data != x.data) map<T, 1>(exec, y, {&x}, [=] SPILLWAY_BOTH(const float* v, uint32_t) { return v[0]; });
}

template <class T, class Exec>
void fill_box(Exec& exec, const View& y, float value) {
  map<T, 1>(exec, y, {&y}, [=] SPILLWAY_BOTH(const float*, uint32_t) { return value; });
}

template <>
struct Kernel<OpKind::add> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    add_pair<T>(exec, c.outs[0], c.ins[0], c.ins[1]);
    for (uint32_t i = 2; i < c.n_ins; i++) add_to<T>(exec, c.outs[0], c.ins[i]);
  }
};

template <>
struct Kernel<OpKind::add_relu> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& y = c.outs[0];
    const float slope = float(AddReluAttrs::read(c.attrs).slope);
    const auto rectified = [=] SPILLWAY_BOTH(const float* v, uint32_t) { return rectify(v[0] + v[1], slope); };
    // The last sum is rectified; those before it are not.
    const View* sum = &c.ins[0];
    for (uint32_t i = 1; i + 1 < c.n_ins; i++, sum = &y) add_pair<T>(exec, y, *sum, c.ins[i]);
    map<T, 2>(exec, y, {sum, &c.ins[c.n_ins - 1]}, rectified);
  }
};

template <>
struct Kernel<OpKind::grad_sum> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const View& sum = c.outs[0];
    const bool first_fills = ops::same_box(c.ins[0], sum);
    if (first_fills && ops::same_box(c.ins[1], sum)) {
      add_pair<T>(exec, sum, c.ins[0], c.ins[1]);
    } else {
      if (!first_fills) fill_box<T>(exec, sum, 0);
      copy_box<T>(exec, window_onto<T>(sum, c.ins[0]), c.ins[0]);
      add_to<T>(exec, window_onto<T>(sum, c.ins[1]), c.ins[1]);
    }
    for (uint32_t i = 2; i < c.n_ins; i++) add_to<T>(exec, window_onto<T>(sum, c.ins[i]), c.ins[i]);
  }
};

}  // namespace spillway::cuda
