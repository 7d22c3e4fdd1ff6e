// Calls with bf16 activations, for kernels without bf16. In: a call in bf16. Out: the same call on dense copies of its
// activations in the call's float type, in scratch; a result there is rounded once, when it is stored. Invariant: operands
// that share memory share their copy, so calls in place stay so; an operand of a product is rounded first.
#pragma once
#include <algorithm>
#include <vector>

#include "core/bf16.hpp"
#include "ops/check.hpp"

namespace spillway::ref {

/// Calls f(index of the element in the dense copy, in the view) for each element, channels innermost.
template <class F>
void each_place(const View& v, F f) {
  int64_t dense = 0;
  for (int64_t b = 0; b < v.dims[0]; b++)
    for (int64_t h = 0; h < v.dims[2]; h++)
      for (int64_t w = 0; w < v.dims[3]; w++)
        for (int64_t c = 0; c < v.dims[1]; c++) f(dense++, b * v.strides[0] + c * v.strides[1] + h * v.strides[2] + w * v.strides[3]);
}

/// `product`: an input that enters products, whose factors are all bf16 in a call in bf16; none: past the last.
template <class T>
class AsFloats {
 public:
  static int64_t elements(const KernelCall& c, uint32_t product) {
    int64_t n = 0;
    for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++)
      if (is_copied(c, i, product)) n += ops::elements(operand(c, i));
    return n;
  }

  AsFloats(const KernelCall& c, uint32_t product, T* scratch) : host_(c), call_(c), scratch_(scratch) {
    for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++) {
      views_.push_back(operand(c, i));
      if (is_copied(c, i, product)) copy(i);
    }
    call_.ins = views_.data();
    call_.outs = views_.data() + c.n_ins;
  }

  const KernelCall& call() const { return call_; }

  void store() const {
    for (uint32_t o = 0; o < host_.n_outs; o++) {
      const View& to = host_.outs[o];
      const T* const from = static_cast<const T*>(call_.outs[o].data);
      if (to.dtype == DType::bf16) each_place(to, [&](int64_t dense, int64_t at) { static_cast<Bf16*>(to.data)[at] = Bf16(from[dense]); });
    }
  }

 private:
  static const View& operand(const KernelCall& c, uint32_t i) { return i < c.n_ins ? c.ins[i] : c.outs[i - c.n_ins]; }
  static bool is_copied(const KernelCall& c, uint32_t i, uint32_t product) { return operand(c, i).dtype == DType::bf16 || i == product; }

  void copy(uint32_t i) {
    const View& from = operand(host_, i);
    View& to = views_[i];
    to.dtype = std::is_same_v<T, double> ? DType::f64 : DType::f32;
    for (uint32_t same = 0; same < i; same++)
      if (operand(host_, same).data == from.data && ops::same_box(operand(host_, same), from)) {
        to.data = views_[same].data;
        std::copy_n(views_[same].strides, 4, to.strides);
        return;
      }
    T* const copied = scratch_;
    to.data = copied;
    scratch_ += ops::elements(from);
    const int64_t* d = from.dims;
    const int64_t strides[4] = {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
    std::copy_n(strides, 4, to.strides);
    const auto load = [&](auto* data) {
      each_place(from, [&](int64_t dense, int64_t at) { copied[dense] = T(double(Bf16(double(data[at])))); });
    };
    if (from.dtype == DType::bf16)
      load(static_cast<const Bf16*>(from.data));
    else
      load(static_cast<const T*>(from.data));
  }

  const KernelCall& host_;
  KernelCall call_;
  T* scratch_;
  std::vector<View> views_;
};

}  // namespace spillway::ref
