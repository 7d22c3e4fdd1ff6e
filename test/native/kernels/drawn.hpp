// Families from samples of the op table (table_cases.cpp): values by number, the calls that make some of them of others, and which is
// the gradient of the first call's output. In: a sample with its sizes. Out: a family on random numbers.
#pragma once
#include "test/native/kernels/families.hpp"

namespace spillway::test {

enum class Fill { any, positive, small, one, byte };
struct DrawnValue {
  Dims dims;
  int rank;
  bool tensor;
  Fill fill = Fill::any;
};
struct DrawnOperand {
  size_t value;
  Reach reach;
};
struct DrawnCall {
  OpKind kind;
  std::vector<double> attrs;
  std::vector<DrawnOperand> ins, outs;
  size_t anchor;
  bool dense;
  int in_place;
  std::vector<size_t> mutated{};
};
/// The gradient of the first call's output 0 by its input, along a value in place of dy.
struct DrawnGradient {
  size_t input, dy, gradient;
};
struct Drawn {
  std::vector<DrawnValue> values;
  std::vector<DrawnCall> calls;
  std::vector<DrawnGradient> gradients;
};

inline Array filled(Random& r, const DrawnValue& v) {
  if (v.fill == Fill::any) return r.normal(v.dims, 2);
  if (v.fill == Fill::positive) return r.positive(v.dims);
  if (v.fill == Fill::byte) {
    Array bytes(v.dims);
    for (double& x : bytes.data) x = double(r.between(0, 255));
    return bytes;
  }
  Array a = r.normal(v.dims, 0.1);
  if (v.fill == Fill::one) std::fill(a.data.begin(), a.data.end(), 1);
  return a;
}

/// One of the samples.
inline Family family_of(Random& r, const std::vector<Drawn>& samples) {
  const Drawn& sample = samples[size_t(r.between(0, int64_t(samples.size()) - 1))];
  std::vector<Array> arrays;
  for (const DrawnValue& v : sample.values) arrays.push_back(filled(r, v));
  Family f;
  for (const DrawnCall& drawn : sample.calls) {
    Call call{drawn.kind, drawn.attrs, {}, {}, drawn.anchor, {}, drawn.dense, drawn.in_place, drawn.mutated};
    const auto operand = [&](const DrawnOperand& o, const Array& a) {
      const DrawnValue& v = sample.values[o.value];
      return v.tensor ? tensor(a, o.reach) : parameter(a, v.rank);
    };
    for (const DrawnOperand& o : drawn.ins) call.ins.push_back(operand(o, arrays[o.value]));
    for (const DrawnOperand& o : drawn.outs) call.outs.push_back(operand(o, Array(sample.values[o.value].dims)));
    const std::vector<Array> made = reference(call);
    for (size_t i = 0; i < drawn.outs.size(); i++) arrays[drawn.outs[i].value] = made[i];
    f.calls.push_back(call);
  }
  for (const DrawnGradient& g : sample.gradients) f.gradients.push_back(gradient_of(f.calls[0], g.input, arrays[g.dy], arrays[g.gradient]));
  return f;
}

}  // namespace spillway::test
