// Random transposed convolutions: kernels, strides, paddings, dilations, groups, output padding.
#include "test/native/kernels/windows.hpp"

namespace spillway::test {
namespace {

/// Sizes of one transposed convolution.
struct TransposedCase {
  WindowShape window;
  int64_t after[2], more[2];  // padding below and on the right, output padding
  int64_t x[2], y[2];
  int64_t batch, in, out, groups;
  bool bias;
};

/// The x rows whose windows meet rows [lo, hi) of y, or the nearest one, by trying all.
std::pair<int64_t, int64_t> windows_meeting(const TransposedCase& c, int axis, int64_t lo, int64_t hi) {
  const WindowShape& s = c.window;
  int64_t first = c.x[axis], last = 0;
  for (int64_t i = 0; i < c.x[axis]; i++) {
    const int64_t start = i * s.stride[axis] - s.pad[axis];
    if (start + reach(s, axis) > lo) first = std::min(first, i);
    if (start < hi) last = i;
  }
  return {std::min(first, last), last};
}

Family transposed_calls(const TransposedCase& c, Random& r) {
  const WindowShape& s = c.window;
  const Array x = r.normal({c.batch, c.in, c.x[0], c.x[1]}), dy = r.normal({c.batch, c.out, c.y[0], c.y[1]});
  const Array w = r.normal({c.in, c.out / c.groups, s.kernel[0], s.kernel[1]}, 0.3), b = r.normal({c.out, 1, 1, 1});
  const std::vector<double> attrs{double(s.stride[0]), double(s.stride[1]), double(s.pad[0]),      double(s.pad[1]),
                                  double(c.after[0]),  double(c.after[1]),  double(s.dilation[0]), double(s.dilation[1]),
                                  double(c.groups),    double(c.more[0]),   double(c.more[1])};
  Call forward{OpKind::conv_transpose2d, attrs, {tensor(x, Reach::met), parameter(w, 4)}, {tensor(Array(dy.dims))}, 2, s, true};
  Call data{OpKind::conv_transpose2d_bwd_data, attrs, {tensor(dy), parameter(w, 4)}, {tensor(Array(x.dims), Reach::met)}, 0, s, true};
  Call weights{OpKind::conv_transpose2d_bwd_weights, attrs, {tensor(x, Reach::met), tensor(dy)}, {parameter(Array(w.dims), 4)}, 1, s, true};
  if (c.bias) {
    forward.ins.push_back(parameter(b, 1));
    forward.anchor = 3;
    weights.outs.push_back(parameter(Array(b.dims), 1));
  }
  for (Call* call : {&forward, &data, &weights})
    call->meets = [c](int axis, int64_t lo, int64_t hi) { return windows_meeting(c, axis, lo, hi); };
  const std::vector<Array> dw = reference(weights);
  Family f{{forward, data, weights}, {gradient_of(forward, 0, dy, reference(data)[0]), gradient_of(forward, 1, dy, dw[0])}};
  if (c.bias) f.gradients.push_back(gradient_of(forward, 2, dy, dw[1]));
  return f;
}

Family conv_transpose2d_family(Random& r) {
  TransposedCase c{random_window(r, 5, true), {}, {}, {}, {}, r.between(1, 3), channels(r), channels(r), 1, r.chance(0.5)};
  const WindowShape& s = c.window;
  for (int axis = 0; axis < 2; axis++) {
    const int64_t most = reach(s, axis) - 1;
    c.window.pad[axis] = r.between(0, most);
    c.after[axis] = r.chance(0.6) ? s.pad[axis] : r.between(0, most);
    c.more[axis] = r.between(0, std::max(s.stride[axis], s.dilation[axis]) - 1);
    const int64_t spread = reach(s, axis) + c.more[axis] - s.pad[axis] - c.after[axis];  // of one row of x
    c.x[axis] = 1 + std::max<int64_t>(0, (s.stride[axis] - spread) / s.stride[axis]) + r.between(0, 7);
    c.y[axis] = (c.x[axis] - 1) * s.stride[axis] + spread;
  }
  if (r.chance(0.25)) {
    c.groups = r.pick<int64_t>({2, 3, 4});
    c.in *= c.groups;
    c.out *= c.groups;
  } else if (r.chance(0.15)) {
    c.groups = c.out = c.in;
  }
  return transposed_calls(c, r);
}
Family laid_conv_transpose2d_family(Random& r) { return with_laid_weights(conv_transpose2d_family(r)); }
const Listed laid_conv_transpose2d_listed{"conv_transpose2d of laid weights", laid_conv_transpose2d_family, 20, MANY};
const Listed conv_transpose2d_listed{"conv_transpose2d", conv_transpose2d_family, 80, MANY};

/// As networks have them: twice the size, kernel 2 or 4 (or 3 with output padding).
Family doubling_family(Random& r) {
  const int64_t kernel = r.pick<int64_t>({2, 3, 4}), pad = (kernel - 1) / 2, more = kernel % 2;
  TransposedCase c{{{kernel, kernel}, {2, 2}, {pad, pad}, {1, 1}},
                   {pad, pad},
                   {more, more},
                   {r.between(3, 9), r.between(3, 9)},
                   {},
                   1,
                   r.pick<int64_t>({64, 96}),
                   r.pick<int64_t>({32, 64}),
                   1,
                   r.chance(0.5)};
  for (int axis = 0; axis < 2; axis++) c.y[axis] = 2 * c.x[axis];
  return transposed_calls(c, r);
}
const Listed doubling_listed{"doubling conv_transpose2d", doubling_family, 9, MANY};

}  // namespace
}  // namespace spillway::test
