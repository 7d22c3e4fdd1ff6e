// Calls on 16-bit activations, for kernels without them. In: such a call. Out: the same call on dense copies of its activations
// in the call's float type, in scratch; a result there is rounded once, when it is stored. Invariant: operands that share memory
// share their copy, so calls in place stay so; a weight that enters products is rounded first.
#pragma once
#include <algorithm>
#include <vector>

#include "core/half.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// Calls f with a value of a 16-bit type.
template <class F>
void with_half(DType t, F f) {
  t == DType::bf16 ? f(Bf16(0.0f)) : f(F16(0.0f));
}

/// Calls f(index of the element in the dense copy, in the view) for each element, channels innermost.
template <class F>
void each_place(const View& v, F f) {
  int64_t dense = 0;
  for (int64_t b = 0; b < v.dims[0]; b++)
    for (int64_t h = 0; h < v.dims[2]; h++)
      for (int64_t w = 0; w < v.dims[3]; w++)
        for (int64_t c = 0; c < v.dims[1]; c++) f(dense++, b * v.strides[0] + c * v.strides[1] + h * v.strides[2] + w * v.strides[3]);
}

template <class T>
class AsFloats {
 public:
  static int64_t elements(const KernelCall& c) {
    int64_t n = 0;
    for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++)
      if (is_copied(c, i)) n += ops::elements(operand(c, i));
    return n;
  }

  /// Without scratch: only the shapes and strides of the copies.
  AsFloats(const KernelCall& c, T* scratch) : host_(c), call_(c), scratch_(scratch), half_(stored_type(c)) {
    for (uint32_t i = 0; i < c.n_ins + c.n_outs; i++) {
      views_.push_back(operand(c, i));
      if (is_copied(c, i)) copy(i);
    }
    call_.ins = views_.data();
    call_.outs = views_.data() + c.n_ins;
  }
  AsFloats(const AsFloats&) = delete;
  AsFloats& operator=(const AsFloats&) = delete;

  KernelCall& call() { return call_; }

  void store() const {
    for (uint32_t o = 0; o < host_.n_outs; o++) {
      const View& to = host_.outs[o];
      const T* const from = static_cast<const T*>(call_.outs[o].data);
      if (!is_half(to.dtype)) continue;
      with_half(to.dtype, [&](auto half) {
        using Half = decltype(half);
        each_place(to, [&](int64_t dense, int64_t at) { static_cast<Half*>(to.data)[at] = Half(from[dense]); });
      });
    }
  }

 private:
  static const View& operand(const KernelCall& c, uint32_t i) { return i < c.n_ins ? c.ins[i] : c.outs[i - c.n_ins]; }
  static bool is_copied(const KernelCall& c, uint32_t i) { return is_half(operand(c, i).dtype) || i == weight_of(c); }

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
    // A weight in its natural order keeps it.
    if (!is_plain(from)) {
      const int64_t* d = from.dims;
      const int64_t strides[4] = {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
      std::copy_n(strides, 4, to.strides);
    }
    if (!scratch_) return;
    scratch_ += ops::elements(from);
    with_half(half_, [&](auto half) {
      using Half = decltype(half);
      if (is_half(from.dtype))
        each_place(from, [&](int64_t dense, int64_t at) { copied[dense] = T(double(static_cast<const Half*>(from.data)[at])); });
      else if (is_plain(from))
        for (int64_t n = 0; n < ops::elements(from); n++) copied[n] = T(double(Half(double(static_cast<const T*>(from.data)[n]))));
      else
        each_place(from, [&](int64_t dense, int64_t at) { copied[dense] = T(double(Half(double(static_cast<const T*>(from.data)[at])))); });
    });
  }
  static bool is_plain(const View& v) { return !is_half(v.dtype) && dense_plain(v); }

  const KernelCall& host_;
  KernelCall call_;
  T* scratch_;
  DType half_;
  std::vector<View> views_;
};

}  // namespace spillway::ops
