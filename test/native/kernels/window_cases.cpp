// Random convolutions and poolings: kernels, strides, paddings, dilations, groups, ceil mode, sizes that do not divide.
#include "test/native/kernels/windows.hpp"

namespace spillway::test {
namespace {

/// Sizes of one convolution.
struct Conv2dCase {
  WindowShape window;
  int64_t after[2];   // padding below and on the right
  int64_t extent[2];  // of x
  int64_t batch, in, out, groups;
  bool bias;
};

Family conv2d_calls(const Conv2dCase& c, Random& r) {
  const WindowShape& s = c.window;
  int64_t out[2];
  for (int axis = 0; axis < 2; axis++) out[axis] = (c.extent[axis] + s.pad[axis] + c.after[axis] - reach(s, axis)) / s.stride[axis] + 1;
  const Array x = r.normal({c.batch, c.in, c.extent[0], c.extent[1]}), dy = r.normal({c.batch, c.out, out[0], out[1]});
  const Array w = r.normal({c.out, c.in / c.groups, s.kernel[0], s.kernel[1]}, 0.3), b = r.normal({c.out, 1, 1, 1});
  const std::vector<double> attrs{double(s.stride[0]), double(s.stride[1]),   double(s.pad[0]),      double(s.pad[1]), double(c.after[0]),
                                  double(c.after[1]),  double(s.dilation[0]), double(s.dilation[1]), double(c.groups)};
  Call forward{OpKind::conv2d, attrs, {tensor(x, Reach::window), parameter(w, 4)}, {tensor(Array(dy.dims))}, 2, s, true};
  Call data{OpKind::conv2d_bwd_data, attrs, {tensor(dy), parameter(w, 4)}, {tensor(Array(x.dims), Reach::window)}, 0, s, true};
  Call weights{OpKind::conv2d_bwd_weights, attrs, {tensor(x, Reach::window), tensor(dy)}, {parameter(Array(w.dims), 4)}, 1, s, true};
  if (c.bias) {
    forward.ins.push_back(parameter(b, 1));
    forward.anchor = 3;
    weights.outs.push_back(parameter(Array(b.dims), 1));
  }
  const std::vector<Array> dw = reference(weights);
  Call rectified = forward;
  rectified.kind = OpKind::conv2d_relu;
  rectified.attrs.push_back(r.pick({0.0, 0.1}));
  Family f{{forward, rectified, data, weights}, {gradient_of(forward, 0, dy, reference(data)[0]), gradient_of(forward, 1, dy, dw[0])}};
  if (c.bias) f.gradients.push_back(gradient_of(forward, 2, dy, dw[1]));
  return f;
}

Family conv2d_family(Random& r) {
  Conv2dCase c{random_window(r, 5, true), {}, {}, r.between(1, 3), channels(r), channels(r), 1, r.chance(0.5)};
  for (int axis = 0; axis < 2; axis++) {
    c.window.pad[axis] = r.between(0, c.window.kernel[axis] - 1);
    c.after[axis] = r.chance(0.6) ? c.window.pad[axis] : r.between(0, c.window.kernel[axis] - 1);
    c.extent[axis] = extent_for(r, c.window, axis, c.window.pad[axis] + c.after[axis]);
  }
  if (r.chance(0.25)) {
    c.groups = r.pick<int64_t>({2, 3, 4});
    c.in *= c.groups;
    c.out *= c.groups;
  } else if (r.chance(0.15)) {
    c.groups = c.out = c.in;
  }
  return conv2d_calls(c, r);
}
Family laid_conv2d_family(Random& r) { return with_laid_weights(conv2d_family(r)); }
const Listed laid_conv2d_listed{"conv2d of laid weights", laid_conv2d_family, 40, MANY};
const Listed conv2d_listed{"conv2d", conv2d_family, 120, MANY};

Family by(uint32_t way, Family f) {
  for (Call& call : f.calls) call.way = way;
  f.gradients.clear();
  return f;
}

/// Sizes for which the cpu device has own weight gradients, and their neighbours; channels that fill no vector; any padding.
Family depthwise_conv2d_family(Random& r) {
  const int64_t kernel = r.pick<int64_t>({3, 5, 5, 7, 7}), stride = r.between(1, 2),
                many = r.pick<int64_t>({r.between(1, 15), r.between(16, 150)});
  Conv2dCase c{{{kernel, kernel}, {stride, stride}}, {}, {}, r.between(1, 3), many, many, many, r.chance(0.5)};
  for (int axis = 0; axis < 2; axis++) {
    c.window.pad[axis] = r.between(0, kernel - 1);
    c.after[axis] = r.chance(0.6) ? c.window.pad[axis] : r.between(0, kernel - 1);
    c.extent[axis] = extent_for(r, c.window, axis, c.window.pad[axis] + c.after[axis]);
  }
  return conv2d_calls(c, r);
}
const Listed depthwise_listed{"depthwise conv2d", depthwise_conv2d_family, 40, MANY};

/// Any window, also one that lies mostly in the padding.
Family tapped_conv2d_family(Random& r) {
  Conv2dCase c{random_window(r, 4, false), {}, {}, r.between(1, 3), r.between(1, 70), r.between(1, 70), 1, r.chance(0.5)};
  for (int axis = 0; axis < 2; axis++) {
    c.window.dilation[axis] = r.pick<int64_t>({1, 2, 3, 9});
    c.window.pad[axis] = r.between(0, reach(c.window, axis) - 1);
    c.after[axis] = r.chance(0.5) ? c.window.pad[axis] : r.between(0, reach(c.window, axis) - 1);
    c.extent[axis] = extent_for(r, c.window, axis, c.window.pad[axis] + c.after[axis]);
  }
  return by(TAPS, conv2d_calls(c, r));
}
#ifndef SPILLWAY_WITHOUT_ONEDNN  // taps are its products
const Listed tapped_listed{"conv2d by taps", tapped_conv2d_family, 60, MANY};
#endif

/// Channels of a group that share a vector, fill some or end in the middle of one; rows and columns of windows alike, and not.
Family grouped_conv2d_family(Random& r) {
  const int64_t in = r.pick<int64_t>({1, 2, 3, 4, 8, 16, 24, 40}), out = r.chance(0.6) ? in : r.between(1, 70), groups = r.between(2, 9);
  Conv2dCase c{random_window(r, 7, true), {}, {}, r.between(1, 3), in * groups, out * groups, groups, r.chance(0.5)};
  if (r.chance(0.5)) c.window = {{3, 3}, {c.window.stride[0], c.window.stride[0]}};
  for (int axis = 0; axis < 2; axis++) {
    c.window.pad[axis] = r.between(0, reach(c.window, axis) - 1);
    c.after[axis] = r.chance(0.5) ? c.window.pad[axis] : r.between(0, reach(c.window, axis) - 1);
    c.extent[axis] = extent_for(r, c.window, axis, c.window.pad[axis] + c.after[axis]);
  }
  return by(GROUPED, conv2d_calls(c, r));
}
const Listed grouped_listed{"conv2d by groups", grouped_conv2d_family, 80, MANY};

/// 3x3 at stride 1, with any padding on each side, also none, and channels that fill no vector.
Family winograd_conv2d_calls(Conv2dCase c, Random& r) {
  for (int axis = 0; axis < 2; axis++) {
    const int64_t most = reach(c.window, axis) - 1;
    c.window.pad[axis] = r.between(0, most);
    c.after[axis] = r.chance(0.5) ? c.window.pad[axis] : r.between(0, most);
    c.extent[axis] = extent_for(r, c.window, axis, c.window.pad[axis] + c.after[axis]);
  }
  return by(WINOGRAD, conv2d_calls(c, r));
}
Family winograd_conv2d_family(Random& r) {
  return winograd_conv2d_calls({{{3, 3}}, {}, {}, r.between(1, 3), r.between(1, 70), r.between(1, 70), 1, r.chance(0.5)}, r);
}
const Listed winograd_listed{"winograd conv2d", winograd_conv2d_family, 60, MANY};

/// Pixels a dilation apart: tiles of four rows where there are many, and single rows where there are few.
Family dilated_winograd_family(Random& r) {
  const int64_t rows = r.pick<int64_t>({1, 2, 3, 9}), columns = r.pick<int64_t>({1, 2, 3, 9});
  Conv2dCase c{{{3, 3}, {1, 1}, {}, {rows, columns}}, {}, {}, r.between(1, 2), r.between(1, 70), r.between(1, 70), 1, r.chance(0.5)};
  return winograd_conv2d_calls(c, r);
}
const Listed dilated_winograd_listed{"dilated winograd conv2d", dilated_winograd_family, 40, MANY};

/// Results that are written past the caches, and weights whose forms are too large for them.
Family large_winograd_family(Random& r) {
  const bool large = r.chance(0.5);
  Conv2dCase c{{{3, 3}, {1, 1}, {1, 1}}, {1, 1}, {}, 1, 180, 190, 1, r.chance(0.5)};
  if (large) c.in = 3, c.out = 64;
  for (int64_t& extent : c.extent) extent = large ? 257 : r.between(5, 12);
  return by(WINOGRAD, conv2d_calls(c, r));
}
const Listed large_winograd_listed{"large winograd conv2d", large_winograd_family, 4};

/// Images wider than the blocks of pixels that kernels take at a time, with channels that fill no block.
Family wide_image_family(Random& r) {
  const int64_t kernel = r.pick<int64_t>({1, 3}), dilation = kernel == 1 ? 1 : r.between(1, 3), pad = kernel / 2 * dilation;
  const Conv2dCase c{{{kernel, kernel}, {1, 1}, {pad, pad}, {dilation, dilation}},
                     {pad, pad},
                     {r.between(1, 16), r.chance(0.5) ? 30 : r.between(26, 66)},
                     r.between(1, 2),
                     r.between(1, 40),
                     r.between(1, 40),
                     1,
                     r.chance(0.5)};
  return by(DIRECT, conv2d_calls(c, r));
}
const Listed wide_image_listed{"conv2d of wide images", wide_image_family, 40, MANY};

/// More padding than any image has pixels, all of it between the window's positions: a library that writes code for it would not end.
Family far_padding_family(Random& r) {
  constexpr int64_t far = int64_t(1) << 28;
  const Conv2dCase c{
      {{1, 3}, {1, 1}, {0, far}, {1, far}}, {0, far}, {r.between(1, 5), r.between(1, 5)}, 1, r.between(16, 40), r.between(16, 40), 1, true};
  return by(DIRECT, conv2d_calls(c, r));
}
const Listed far_padding_listed{"conv2d of far padding", far_padding_family, 2};

/// Channels as networks have them.
Family wide_conv2d_family(Random& r) {
  const int64_t kernel = r.pick<int64_t>({1, 1, 3, 7}), stride = r.between(1, 2), pad = kernel / 2;
  const Conv2dCase c{{{kernel, kernel}, {stride, stride}, {pad, pad}, {1, 1}},
                     {pad, pad},
                     {r.between(7, 15), r.between(7, 15)},
                     1,
                     kernel == 7 ? 3 : r.pick<int64_t>({3, 48, 64, 96}),
                     r.pick<int64_t>({64, 80, 128}),
                     1,
                     r.chance(0.3)};
  return conv2d_calls(c, r);
}
const Listed wide_conv2d_listed{"wide conv2d", wide_conv2d_family, 16, MANY};

/// Strided 1x1 with few input channels, whose channels-last weight gradients corrupt the heap in oneDNN 2.6.
Family strided_pointwise_family(Random& r) {
  const int64_t stride = r.between(2, 3), pad = r.between(0, 1);
  const Conv2dCase c{{{1, 1}, {stride, stride}, {pad, pad}, {1, 1}},
                     {pad, pad},
                     {r.between(3, 70), r.between(3, 70)},
                     r.between(1, 4),
                     r.pick<int64_t>({8, 12}),
                     r.pick<int64_t>({16, 20, 32, 64, 128, 256}),
                     1,
                     r.chance(0.5)};
  return conv2d_calls(c, r);
}
const Listed strided_pointwise_listed{"strided 1x1 conv2d", strided_pointwise_family, 30, MANY};

/// Windows that lie mostly in the padding of a sliver: oneDNN has only a reference implementation for some.
Family sliver_conv2d_family(Random& r) {
  const Conv2dCase c{{{7, 7}, {1, 1}, {4, 10}, {2, 2}}, {4, 10}, {16, 1}, 1, 24, 2, 2, r.chance(0.5)};
  return conv2d_calls(c, r);
}
const Listed sliver_conv2d_listed{"sliver conv2d", sliver_conv2d_family, 2};

/// PyTorch's rule: a ceil window must start inside the image or its near padding.
int64_t pooled(int64_t extent, int64_t kernel, int64_t stride, int64_t pad, int64_t pad_after, bool ceil) {
  const int64_t room = extent + pad + pad_after - kernel + (ceil ? stride - 1 : 0);
  int64_t out = (room < 0 ? -1 : room / stride) + 1;
  if (ceil && (out - 1) * stride >= extent + pad) out--;
  return out;
}

Family pool_family(Random& r) {
  Family f;
  WindowShape s = random_window(r, 4, false);
  const bool ceil = r.chance(0.4), count_padding = r.chance(0.5);
  Dims in = image(r), out = in;
  int64_t behind[2];
  for (int axis = 0; axis < 2; axis++) {
    s.pad[axis] = r.between(0, s.kernel[axis] / 2);
    behind[axis] = r.chance(0.5) ? s.pad[axis] : r.between(0, s.kernel[axis] / 2);
    in[2 + axis] = extent_for(r, s, axis, 0);
    out[2 + axis] = pooled(in[2 + axis], s.kernel[axis], s.stride[axis], s.pad[axis], behind[axis], ceil);
  }
  const Array x = r.normal(in), dy = r.normal(out);
  std::vector<double> attrs{double(s.kernel[0]), double(s.kernel[1]), double(s.stride[0]), double(s.stride[1]),
                            double(s.pad[0]),    double(s.pad[1]),    double(ceil)};
  // A max pool has the far sides' padding behind its other attributes, if it differs.
  std::vector<double> ends;
  if (behind[0] != s.pad[0] || behind[1] != s.pad[1]) ends = {double(behind[0]), double(behind[1])};
  std::vector<double> max_attrs = attrs;
  max_attrs.insert(max_attrs.end(), ends.begin(), ends.end());
  const Call max{OpKind::max_pool, max_attrs, {tensor(x, Reach::window)}, {tensor(Array(out))}, 1, s};
  const Call max_back{OpKind::max_pool_bwd, max_attrs, {tensor(x, Reach::window), tensor(dy)}, {tensor(Array(in), Reach::window)}, 1, s};
  const Dims words{out[0], (out[1] + 3) / 4, out[2], out[3]};
  const Call places{OpKind::max_pool_places, max_attrs, {tensor(x, Reach::window)}, {labelled(Array(words))}, 1, s};
  std::vector<double> sized = attrs;
  sized.insert(sized.end(), {double(in[1]), double(in[2]), double(in[3])});
  sized.insert(sized.end(), ends.begin(), ends.end());
  const Call places_back{OpKind::max_pool_places_bwd,        sized, {labelled(reference(places)[0]), tensor(dy)},
                         {tensor(Array(in), Reach::window)}, 1,     s};
  attrs.insert(attrs.end(), {double(count_padding), double(behind[0]), double(behind[1])});
  const Call mean{OpKind::avg_pool, attrs, {tensor(x, Reach::window)}, {tensor(Array(out))}, 1, s};
  attrs.insert(attrs.end(), {double(in[2]), double(in[3])});
  const Call mean_back{OpKind::avg_pool_bwd, attrs, {tensor(dy)}, {tensor(Array(in), Reach::window)}, 0, s};
  f.calls = {max, max_back, places, places_back, mean, mean_back};
  f.gradients = {gradient_of(max, 0, dy, reference(max_back)[0]), gradient_of(max, 0, dy, reference(places_back)[0]),
                 gradient_of(mean, 0, dy, reference(mean_back)[0])};
  return f;
}
const Listed pool_listed{"pool", pool_family, 60, MANY};

Family global_avg_pool_family(Random& r) {
  Family f;
  const Dims in = image(r), out{in[0], in[1], 1, 1};
  const Array x = r.normal(in), dy = r.normal(out);
  const std::vector<double> attrs{double(in[2] * in[3])};
  const Call forward{OpKind::global_avg_pool, attrs, {tensor(x)}, {tensor(Array(out), Reach::all)}, 0};
  const Call back{OpKind::global_avg_pool_bwd, attrs, {tensor(dy, Reach::all)}, {tensor(Array(in))}, 1};
  f.calls = {forward, back};
  f.gradients = {gradient_of(forward, 0, dy, reference(back)[0])};
  return f;
}
const Listed global_avg_pool_listed{"global_avg_pool", global_avg_pool_family, 20, MANY};

}  // namespace
}  // namespace spillway::test
