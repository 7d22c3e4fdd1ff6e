// The reference device: naive loops, double accumulation, f32, f64 or 16-bit storage. Other devices are compared with it. In: a checked
// call. Out: the result by the formula of docs/internals/operators.md, in the same order. Invariant: single-threaded; no scratch except a
// convolution's, in doubles, and the copies of a call on 16-bit activations; every operator of the table has an entry, or the link fails.
#pragma once
#include "ops/as_floats.hpp"

namespace spillway::ref {

#define SPILLWAY_DECLARE(kind, wire) extern const KernelEntry kind;
SPILLWAY_OPS(SPILLWAY_DECLARE)
#undef SPILLWAY_DECLARE

/// Elements of a view by local coordinates (`at`) or by those of the whole value (`global`).
template <class T>
class Tensor {
 public:
  explicit Tensor(const View& v) : view_(v), data_(static_cast<T*>(v.data)) {}
  T& at(int64_t b, int64_t c, int64_t h, int64_t w) const {
    return data_[b * view_.strides[0] + c * view_.strides[1] + h * view_.strides[2] + w * view_.strides[3]];
  }
  T& global(int64_t b, int64_t c, int64_t h, int64_t w) const {
    return at(b - view_.origin[0], c - view_.origin[1], h - view_.origin[2], w - view_.origin[3]);
  }
  /// A dense value as a flat list.
  T& operator[](int64_t i) const { return data_[i]; }
  const View& view() const { return view_; }

 private:
  const View& view_;
  T* data_;
};

/// Calls f(b, c, h, w) for each element, in whole-value coordinates.
template <class F>
void each_element(const View& v, F f) {
  for (int64_t b = ops::lower(v, 0); b < ops::upper(v, 0); b++)
    for (int64_t c = ops::lower(v, 1); c < ops::upper(v, 1); c++)
      for (int64_t h = ops::lower(v, 2); h < ops::upper(v, 2); h++)
        for (int64_t w = ops::lower(v, 3); w < ops::upper(v, 3); w++) f(b, c, h, w);
}

/// Calls f(b, h, w) for each pixel, in whole-value coordinates.
template <class F>
void each_pixel(const View& v, F f) {
  for (int64_t b = ops::lower(v, 0); b < ops::upper(v, 0); b++)
    for (int64_t h = ops::lower(v, 2); h < ops::upper(v, 2); h++)
      for (int64_t w = ops::lower(v, 3); w < ops::upper(v, 3); w++) f(b, h, w);
}

/// Doubles of scratch that an operator wants; most want none.
template <class Op>
int64_t scratch_doubles(const KernelCall& c) {
  if constexpr (requires { Op::scratch_doubles(c); })
    return Op::scratch_doubles(c);
  else
    return 0;
}

/// Calls that plans give no scratch work on 16-bit values as they lie.
template <class Op>
constexpr bool works_on_half() {
  return requires { Op::works_on_half; };
}

/// The computing type. If a weight is laid out and no operand has the float type, it is unknown; then numbers are doubles.
inline DType computed_in(const KernelCall& c) {
  const uint32_t w = ops::weight_of(c);
  return w < c.n_ins && w + 1 == c.n_ins && ops::is_half(c.ins[w].dtype) ? DType::f64 : ops::float_type(c);
}

template <class Op>
int64_t scratch_bytes(const KernelCall& c) {
  const int64_t doubles = scratch_doubles<Op>(c) * int64_t(sizeof(double));
  return ops::is_half(c) && !works_on_half<Op>() ? doubles + ops::AsFloats<double>::elements(c) * int64_t(dtype_bytes(computed_in(c)))
                                                 : doubles;
}

template <class Op, class T>
void run_as(const KernelCall& c) {
  if (!ops::is_half(c)) return Op::template run<T>(c);
  if constexpr (works_on_half<Op>()) {
    ops::with_half(ops::stored_type(c), [&](auto half) { Op::template run<decltype(half)>(c); });
  } else {
    ops::AsFloats<T> as_floats(c, reinterpret_cast<T*>(static_cast<double*>(c.workspace) + scratch_doubles<Op>(c)));
    Op::template run<T>(as_floats.call());
    as_floats.store();
  }
}

template <class Op>
class Prepared final : public PreparedKernel {
 public:
  explicit Prepared(const KernelCall& c)
      : workspace_bytes_(scratch_bytes<Op>(c)), run_(computed_in(c) == DType::f64 ? run_as<Op, double> : run_as<Op, float>) {}
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const KernelCall& c) override { run_(c); }

 private:
  int64_t workspace_bytes_;
  void (*run_)(const KernelCall&);
};

/// An entry from a type with `run<T>(call)` and, where it needs scratch, `scratch_doubles(call)`: one way for all.
template <class Op>
constexpr KernelEntry entry() {
  return {[](const KernelCall& c, uint32_t) -> Result<std::vector<Way>> {
            if (Status s = ops::check(c); !s.ok()) return s;
            return std::vector{Way{0, true, uint64_t(scratch_bytes<Op>(c)), "loops"}};
          },
          [](const KernelCall& c) -> Result<std::unique_ptr<PreparedKernel>> {
            if (Status s = ops::check(c); !s.ok()) return s;
            return std::unique_ptr<PreparedKernel>(std::make_unique<Prepared<Op>>(c));
          }};
}

}  // namespace spillway::ref
