// Random cases for every operator. A family holds the calls that belong together (forward, backwards) on the same
// numbers, and the gradients to hold against finite differences. In: a seeded Random. Out: a Family.
#pragma once
#include "test/native/kernels/calls.hpp"

namespace spillway::test {

/// The reference in double: what the others are held to.
inline std::vector<Array> reference(const Call& call) { return run_whole(call, {ref::kernel, DType::f64}); }

/// d(forward(x)·dy)/dx is `gradient`.
struct Gradient {
  std::string what;
  std::function<Array(const Array&)> forward;
  Array x, dy, gradient;
};

struct Family {
  std::vector<Call> calls;
  std::vector<Gradient> gradients;
};

/// The gradient of `forward`'s output 0 by input `i`.
inline Gradient gradient_of(const Call& forward, size_t i, const Array& dy, const Array& gradient) {
  return {name_of(forward) + " by input " + std::to_string(i),
          [forward, i](const Array& moved) {
            Call call = forward;
            call.ins[i].value = moved;
            return reference(call)[0];
          },
          forward.ins[i].value, dy, gradient};
}

inline int64_t channels(Random& r) { return r.pick<int64_t>({1, 2, 3, 5, 8, 12, 16, 17, 31, 32, 48, 65}); }
inline Dims image(Random& r) { return {r.between(1, 3), channels(r), r.between(1, 13), r.between(1, 17)}; }

// ---------------------------------------------------------------- windows

inline WindowShape random_window(Random& r, int64_t most_kernel, bool dilated) {
  WindowShape s;
  for (int axis = 0; axis < 2; axis++) {
    s.kernel[axis] = r.between(1, most_kernel);
    s.stride[axis] = r.between(1, 3);
    s.dilation[axis] = dilated ? r.pick<int64_t>({1, 1, 1, 2, 3}) : 1;
  }
  if (r.chance(0.7)) {
    s.kernel[1] = s.kernel[0];
    s.stride[1] = s.stride[0];
    s.dilation[1] = s.dilation[0];
  }
  return s;
}

inline int64_t reach(const WindowShape& s, int axis) { return s.dilation[axis] * (s.kernel[axis] - 1) + 1; }

/// An extent that the window fits into.
inline int64_t extent_for(Random& r, const WindowShape& s, int axis, int64_t padding) {
  return std::max<int64_t>(1, reach(s, axis) - padding) + r.between(0, 12);
}

/// Sizes of one convolution.
struct Conv2dCase {
  WindowShape window;
  int64_t after[2];   // padding below and on the right
  int64_t extent[2];  // of x
  int64_t batch, in, out, groups;
  bool bias;
};

inline Family conv2d_calls(const Conv2dCase& c, Random& r) {
  const WindowShape& s = c.window;
  int64_t out[2];
  for (int axis = 0; axis < 2; axis++) out[axis] = (c.extent[axis] + s.pad[axis] + c.after[axis] - reach(s, axis)) / s.stride[axis] + 1;
  const Array x = r.normal({c.batch, c.in, c.extent[0], c.extent[1]}), dy = r.normal({c.batch, c.out, out[0], out[1]});
  const Array w = r.normal({c.out, c.in / c.groups, s.kernel[0], s.kernel[1]}, 0.3), b = r.normal({c.out, 1, 1, 1});
  const std::vector<double> attrs{double(s.stride[0]), double(s.stride[1]), double(s.pad[0]), double(s.pad[1]), double(c.after[0]),
                                  double(c.after[1]), double(s.dilation[0]), double(s.dilation[1]), double(c.groups)};
  Call forward{OpKind::conv2d, attrs, {tensor(x, Reach::window), parameter(w, 4)}, {tensor(Array(dy.dims))}, 2, s, true};
  Call data{OpKind::conv2d_bwd_data, attrs, {tensor(dy), parameter(w, 4)}, {tensor(Array(x.dims), Reach::window)}, 0, s, true};
  Call weights{OpKind::conv2d_bwd_weights, attrs, {tensor(x, Reach::window), tensor(dy)}, {parameter(Array(w.dims), 4)}, 1, s, true};
  if (c.bias) {
    forward.ins.push_back(parameter(b, 1));
    forward.anchor = 3;
    weights.outs.push_back(parameter(Array(b.dims), 1));
  }
  const std::vector<Array> dw = reference(weights);
  Family f{{forward, data, weights}, {gradient_of(forward, 0, dy, reference(data)[0]), gradient_of(forward, 1, dy, dw[0])}};
  if (c.bias) f.gradients.push_back(gradient_of(forward, 2, dy, dw[1]));
  return f;
}

inline Family conv2d_family(Random& r) {
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

/// Channels as networks have them.
inline Family wide_conv2d_family(Random& r) {
  const int64_t kernel = r.pick<int64_t>({1, 3, 3, 7}), stride = r.between(1, 2), pad = kernel / 2;
  const Conv2dCase c{{{kernel, kernel}, {stride, stride}, {pad, pad}, {1, 1}}, {pad, pad}, {r.between(7, 15), r.between(7, 15)},
                     1, r.pick<int64_t>({3, 64, 96}), r.pick<int64_t>({64, 80, 128}), 1, r.chance(0.5)};
  return conv2d_calls(c, r);
}

/// Strided 1x1 with few input channels, whose channels-last weight gradients corrupt the heap in oneDNN 2.6.
inline Family strided_pointwise_family(Random& r) {
  const int64_t stride = r.between(2, 3), pad = r.between(0, 1);
  const Conv2dCase c{{{1, 1}, {stride, stride}, {pad, pad}, {1, 1}}, {pad, pad}, {r.between(3, 70), r.between(3, 70)},
                     r.between(1, 4), r.pick<int64_t>({8, 12}), r.pick<int64_t>({16, 20, 32, 64, 128, 256}), 1, r.chance(0.5)};
  return conv2d_calls(c, r);
}

/// Windows that lie mostly in the padding of a sliver: oneDNN has only a reference implementation for some.
inline Family sliver_conv2d_family(Random& r) {
  const Conv2dCase c{{{7, 7}, {1, 1}, {4, 10}, {2, 2}}, {4, 10}, {16, 1}, 1, 24, 2, 2, r.chance(0.5)};
  return conv2d_calls(c, r);
}

/// PyTorch's rule: a ceil window must start inside the image or its near padding.
inline int64_t pooled(int64_t extent, int64_t kernel, int64_t stride, int64_t pad, int64_t pad_after, bool ceil) {
  const int64_t room = extent + pad + pad_after - kernel + (ceil ? stride - 1 : 0);
  int64_t out = (room < 0 ? -1 : room / stride) + 1;
  if (ceil && (out - 1) * stride >= extent + pad) out--;
  return out;
}

inline Family pool_family(Random& r) {
  Family f;
  WindowShape s = random_window(r, 4, false);
  const bool ceil = r.chance(0.4), count_padding = r.chance(0.5);
  Dims in = image(r), out = in;
  for (int axis = 0; axis < 2; axis++) {
    s.pad[axis] = r.between(0, s.kernel[axis] / 2);
    in[2 + axis] = extent_for(r, s, axis, 0);
    out[2 + axis] = pooled(in[2 + axis], s.kernel[axis], s.stride[axis], s.pad[axis], s.pad[axis], ceil);
  }
  const Array x = r.normal(in), dy = r.normal(out);
  std::vector<double> attrs{double(s.kernel[0]), double(s.kernel[1]), double(s.stride[0]), double(s.stride[1]),
                            double(s.pad[0]), double(s.pad[1]), double(ceil)};
  const Call max{OpKind::max_pool, attrs, {tensor(x, Reach::window)}, {tensor(Array(out))}, 1, s};
  const Call max_back{OpKind::max_pool_bwd, attrs, {tensor(x, Reach::window), tensor(dy)}, {tensor(Array(in), Reach::window)}, 1, s};
  attrs.insert(attrs.end(), {double(count_padding), double(s.pad[0]), double(s.pad[1])});
  const Call mean{OpKind::avg_pool, attrs, {tensor(x, Reach::window)}, {tensor(Array(out))}, 1, s};
  attrs.insert(attrs.end(), {double(in[2]), double(in[3])});
  const Call mean_back{OpKind::avg_pool_bwd, attrs, {tensor(dy)}, {tensor(Array(in), Reach::window)}, 0, s};
  f.calls = {max, max_back, mean, mean_back};
  f.gradients = {gradient_of(max, 0, dy, reference(max_back)[0]), gradient_of(mean, 0, dy, reference(mean_back)[0])};
  return f;
}

inline Family global_avg_pool_family(Random& r) {
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

// ---------------------------------------------------------------- layers

inline Family linear_family(Random& r) {
  Family f;
  const int64_t batch = r.between(1, 9), in = r.between(1, 70), out = r.between(1, 50);
  const Array x = r.normal({batch, in, 1, 1}), w = r.normal({out, in, 1, 1}), b = r.normal({out, 1, 1, 1}), dy = r.normal({batch, out, 1, 1});
  Call forward{OpKind::linear, {}, {tensor(x), parameter(w, 2)}, {tensor(Array(dy.dims))}, 2, {}, true};
  Call weights{OpKind::linear_bwd_weights, {}, {tensor(x), tensor(dy)}, {parameter(Array(w.dims), 2)}, 1, {}, true};
  const Call data{OpKind::linear_bwd_data, {}, {tensor(dy), parameter(w, 2)}, {tensor(Array(x.dims))}, 0, {}, true};
  const bool bias = r.chance(0.6);
  if (bias) {
    forward.ins.push_back(parameter(b, 1));
    forward.anchor = 3;
    weights.outs.push_back(parameter(Array(b.dims), 1));
  }
  const std::vector<Array> dw = reference(weights);
  f.calls = {forward, data, weights};
  f.gradients = {gradient_of(forward, 0, dy, reference(data)[0]), gradient_of(forward, 1, dy, dw[0])};
  if (bias) f.gradients.push_back(gradient_of(forward, 2, dy, dw[1]));
  return f;
}

inline Family batchnorm_family(Random& r) {
  Family f;
  const Dims in = image(r), per_channel{in[1], 1, 1, 1}, moments{2, in[1], 1, 1};
  const double count = double(in[0] * in[2] * in[3]), eps = r.pick({1e-5, 1e-3});
  const std::vector<double> attrs{eps, count};
  const Array x = r.normal(in, 2, 3), dy = r.normal(in), gamma = r.normal(per_channel), beta = r.normal(per_channel);
  const Call statistics{OpKind::bn_stats, {}, {tensor(x)}, {parameter(Array(moments), 2)}, 0};
  const Array stats = reference(statistics)[0];
  const Operand s = parameter(stats, 2), g = parameter(gamma, 1), b = parameter(beta, 1);
  const Call apply{OpKind::bn_apply, attrs, {tensor(x), s, g, b}, {tensor(Array(in))}, 4};
  const Call reduce{OpKind::bn_bwd_reduce, attrs, {tensor(x), tensor(dy), s}, {parameter(Array(per_channel), 1), parameter(Array(per_channel), 1)}, 1};
  const std::vector<Array> totals = reference(reduce);
  const Call data{OpKind::bn_bwd_data, attrs,
                  {tensor(x), tensor(dy), s, g, parameter(totals[0], 1), parameter(totals[1], 1)}, {tensor(Array(in))}, 1};
  const Array mean = r.normal(per_channel), variance = r.positive(per_channel);
  const Call running{OpKind::bn_running, {0.1, count + 1}, {s, parameter(mean, 1), parameter(variance, 1)}, {}, 0, {}, false, -1, {1, 2}};
  f.calls = {statistics, apply, reduce, data, running};
  const auto normalised = [statistics, apply](const Array& moved) {
    Call first = statistics, second = apply;
    first.ins[0].value = second.ins[0].value = moved;
    second.ins[1].value = reference(first)[0];
    return reference(second)[0];
  };
  if (count > 1) f.gradients = {{"batch norm by x " + text(in), normalised, x, dy, reference(data)[0]}};
  f.gradients.push_back(gradient_of(apply, 2, dy, totals[0]));
  f.gradients.push_back(gradient_of(apply, 3, dy, totals[1]));
  return f;
}

inline Family frozen_family(Random& r) {
  Family f;
  const Dims in = image(r), per_channel{in[1], 1, 1, 1};
  const Array x = r.normal(in, 2, 3), dy = r.normal(in);
  const Operand mean = parameter(r.normal(per_channel), 1), variance = parameter(r.positive(per_channel), 1);
  const Operand gamma = parameter(r.normal(per_channel), 1), beta = parameter(r.normal(per_channel), 1);
  const Call forward{OpKind::bn_frozen, {1e-5}, {tensor(x), mean, variance, gamma, beta}, {tensor(Array(in))}, 5};
  const Call data{OpKind::bn_frozen_bwd_data, {1e-5}, {tensor(dy), variance, gamma}, {tensor(Array(in))}, 0};
  const Call reduce{OpKind::bn_frozen_bwd_reduce, {1e-5}, {tensor(x), tensor(dy), mean, variance},
                    {parameter(Array(per_channel), 1), parameter(Array(per_channel), 1)}, 1};
  const std::vector<Array> totals = reference(reduce);
  f.calls = {forward, data, reduce};
  f.gradients = {gradient_of(forward, 0, dy, reference(data)[0]), gradient_of(forward, 3, dy, totals[0]), gradient_of(forward, 4, dy, totals[1])};
  return f;
}

// ---------------------------------------------------------------- element-wise

inline Family relu_family(Random& r) {
  Family f;
  const Dims in = image(r);
  const Array x = r.normal(in), dy = r.normal(in);
  const std::vector<double> attrs{r.pick({0.0, 0.1})};
  const Call forward{OpKind::relu, attrs, {tensor(x)}, {tensor(Array(in))}, 1, {}, false, 0};
  const Call back{OpKind::relu_bwd, attrs, {tensor(reference(forward)[0]), tensor(dy)}, {tensor(Array(in))}, 1, {}, false, 1};
  f.calls = {forward, back};
  f.gradients = {gradient_of(forward, 0, dy, reference(back)[0])};
  return f;
}

inline Family dropout_family(Random& r) {
  Family f;
  const Dims in = image(r);
  const Array x = r.normal(in), dy = r.normal(in);
  const std::vector<double> attrs{r.pick({0.0, 0.2, 0.5}), double(r.between(0, 9))};
  const Call forward{OpKind::dropout, attrs, {tensor(x)}, {tensor(Array(in))}, 1, {}, false, 0};
  const Call back{OpKind::dropout_bwd, attrs, {tensor(dy)}, {tensor(Array(in))}, 0, {}, false, 0};
  f.calls = {forward, back};
  f.gradients = {gradient_of(forward, 0, dy, reference(back)[0])};
  return f;
}

inline Family join_family(Random& r) {
  Family f;
  const Dims in = image(r);
  Dims joined = in;
  Call add{OpKind::add, {}, {}, {tensor(Array(in))}, 0, {}, false, 0}, concat{OpKind::concat, {}, {}, {}, 0};
  for (int64_t i = 0, n = r.between(2, 4); i < n; i++) {
    add.ins.push_back(tensor(r.normal(in)));
    const Dims part{in[0], channels(r), in[2], in[3]};
    concat.ins.push_back(tensor(r.normal(part)));
    joined[1] = i == 0 ? part[1] : joined[1] + part[1];
  }
  concat.outs = {tensor(Array(joined))};
  add.anchor = concat.anchor = add.ins.size();
  Call grad_sum = add;
  grad_sum.kind = OpKind::grad_sum;
  const Array dy = r.normal(joined), dsum = r.normal(in);
  const int64_t from = concat.ins[0].value.dims[1];
  const Call slice{OpKind::slice_channels, {double(from)}, {tensor(dy)}, {tensor(Array(concat.ins[1].value.dims))}, 0};
  f.calls = {add, concat, grad_sum, slice};
  f.gradients = {gradient_of(add, 1, dsum, dsum), gradient_of(concat, 1, dy, reference(slice)[0])};
  return f;
}

inline Family flatten_family(Random& r) {
  Family f;
  const Dims in = image(r), flat{in[0], in[1] * in[2] * in[3], 1, 1};
  const Array x = r.normal(in), dy = r.normal(flat);
  const Call forward{OpKind::flatten, {}, {tensor(x, Reach::all)}, {tensor(Array(flat), Reach::all)}, 1, {}, true};
  const Call back{OpKind::flatten_bwd, {}, {tensor(dy, Reach::all)}, {tensor(Array(in), Reach::all)}, 0, {}, true};
  f.calls = {forward, back};
  f.gradients = {gradient_of(forward, 0, dy, reference(back)[0])};
  return f;
}

// ---------------------------------------------------------------- losses, updates, plumbing

inline Family loss_family(Random& r) {
  Family f;
  const Dims in = image(r), places{in[0], 1, in[2], in[3]};
  const Array x = r.normal(in, 2), one = [] { Array a; a.data = {1}; return a; }();
  const std::vector<double> pixels{double(in[0] * in[2] * in[3])}, elements{double(count_of(in))};
  const Operand labels = labelled(r.labels(places, in[1])), target = tensor(r.normal(in));
  const Call xent{OpKind::softmax_xent, pixels, {tensor(x), labels}, {parameter(Array(), 1)}, 0};
  const Call xent_back{OpKind::softmax_xent_bwd, pixels, {tensor(x), labels}, {tensor(Array(in))}, 0};
  const Call mse{OpKind::mse, elements, {tensor(x), target}, {parameter(Array(), 1)}, 0};
  const Call mse_back{OpKind::mse_bwd, elements, {tensor(x), target}, {tensor(Array(in))}, 0};
  f.calls = {xent, xent_back, mse, mse_back};
  f.gradients = {gradient_of(xent, 0, one, reference(xent_back)[0]), gradient_of(mse, 0, one, reference(mse_back)[0])};
  return f;
}

inline Family update_family(Random& r) {
  Family f;
  const Dims d{r.between(1, 20), r.between(1, 20), r.between(1, 3), r.between(1, 3)};
  const auto value = [&] { return parameter(r.normal(d), 4); };
  const double decay = r.pick({0.0, 0.01}), decoupled = r.pick({0.0, 1.0});
  const Operand second = parameter(r.positive(d), 4);
  f.calls = {{OpKind::sgd, {0.1, 0, decay, 0}, {value(), value()}, {}, 0, {}, false, -1, {0}},
             {OpKind::sgd, {0.1, 0.9, decay, 0}, {value(), value(), value()}, {}, 0, {}, false, -1, {0, 2}},
             {OpKind::sgd, {0.1, 0.9, decay, 1}, {value(), value(), value()}, {}, 0, {}, false, -1, {0, 2}},
             {OpKind::adam, {0.01, 0.9, 0.99, 1e-8, decay, decoupled}, {value(), value(), value(), second}, {}, 0, {}, false, -1, {0, 2, 3}}};
  for (Call& call : f.calls) call.step = uint64_t(r.between(1, 50));
  return f;
}

inline Family plumbing_family(Random& r) {
  Family f;
  const Dims in = image(r), moments{2, in[1], 1, 1}, weights{in[1], 3, 2, 2};
  const Operand x = tensor(r.normal(in)), y = tensor(r.normal(in));
  const Operand first = parameter(r.positive(moments), 2), second = parameter(r.positive(moments), 2);
  f.calls = {{OpKind::fill, {0.25}, {}, {tensor(Array(in))}, 0},
             {OpKind::fill, {-1}, {}, {parameter(Array(weights), 4)}, 0},
             {OpKind::copy, {}, {x}, {tensor(Array(in))}, 1},
             {OpKind::copy, {}, {parameter(r.normal(weights), 4)}, {parameter(Array(weights), 4)}, 1},
             {OpKind::accumulate, {}, {x}, {y}, 0},
             {OpKind::accumulate, {}, {parameter(r.normal(weights), 4)}, {parameter(r.normal(weights), 4)}, 0},
             {OpKind::merge_moments, {7, 0}, {first}, {second}, 0},
             {OpKind::merge_moments, {7, 12}, {first}, {second}, 0}};
  return f;
}

struct Generator {
  const char* name;
  Family (*make)(Random&);
  int cases;
};

inline const std::vector<Generator>& generators() {
  static const std::vector<Generator> all{
      {"conv2d", conv2d_family, 120}, {"wide conv2d", wide_conv2d_family, 12}, {"strided 1x1 conv2d", strided_pointwise_family, 30},
      {"sliver conv2d", sliver_conv2d_family, 2},
      {"pool", pool_family, 60}, {"global_avg_pool", global_avg_pool_family, 20}, {"linear", linear_family, 30},
      {"batchnorm", batchnorm_family, 30}, {"frozen batchnorm", frozen_family, 20}, {"relu", relu_family, 20},
      {"dropout", dropout_family, 15}, {"add, concat", join_family, 25}, {"flatten", flatten_family, 15}, {"loss", loss_family, 25},
      {"update", update_family, 15}, {"plumbing", plumbing_family, 15}};
  return all;
}

}  // namespace spillway::test
