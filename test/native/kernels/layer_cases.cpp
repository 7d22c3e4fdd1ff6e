// Random linear layers (flat and per pixel), batch norms (training and frozen) and group norms.
#include "test/native/kernels/families.hpp"

namespace spillway::test {
namespace {

Family linear_family(Random& r) {
  Family f;
  const int64_t in = r.between(1, 70), out = r.between(1, 50);
  const Dims rows = r.chance(0.5) ? Dims{r.between(1, 9), 1, 1, 1} : Dims{r.between(1, 3), 1, r.between(1, 9), r.between(1, 11)};
  const Array x = r.normal({rows[0], in, rows[2], rows[3]}), dy = r.normal({rows[0], out, rows[2], rows[3]});
  const Array w = r.normal({out, in, 1, 1}), b = r.normal({out, 1, 1, 1});
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
const Listed linear_listed{"linear", linear_family, 30, MANY};

Family batchnorm_family(Random& r) {
  Family f;
  const Dims in = image(r), per_channel{in[1], 1, 1, 1}, moments{4, in[1], 1, 1};
  const double count = double(in[0] * in[2] * in[3]), eps = r.pick({1e-5, 1e-3});
  const std::vector<double> attrs{eps, count};
  const Array x = r.normal(in, 2, 3), dy = r.normal(in), gamma = r.normal(per_channel), beta = r.normal(per_channel);
  const Call statistics{OpKind::bn_stats, {}, {tensor(x)}, {parameter(Array(moments), 2)}, 0};
  const Array stats = reference(statistics)[0];
  const Operand s = parameter(stats, 2), g = parameter(gamma, 1), b = parameter(beta, 1);
  const Call apply{OpKind::bn_apply, attrs, {tensor(x), s, g, b}, {tensor(Array(in))}, 4};
  const Call reduce{
      OpKind::bn_bwd_reduce, attrs, {tensor(x), tensor(dy), s}, {parameter(Array(per_channel), 1), parameter(Array(per_channel), 1)}, 1};
  const std::vector<Array> totals = reference(reduce);
  const Call data{OpKind::bn_bwd_data,
                  attrs,
                  {tensor(x), tensor(dy), s, g, parameter(totals[0], 1), parameter(totals[1], 1)},
                  {tensor(Array(in))},
                  1,
                  {},
                  false,
                  1};
  const Array mean = r.normal(per_channel), variance = r.positive(per_channel);
  const Call running{OpKind::bn_running, {0.1, count + 1}, {s, parameter(mean, 1), parameter(variance, 1)}, {}, 0, {}, false, -1, {1, 2}};
  Array mask({in[0], 1, in[2], in[3]});
  for (double& v : mask.data) v = double(r.between(0, 1));
  const Array inside = reference({OpKind::bn_stats, {}, {tensor(mask)}, {parameter(Array({4, 1, 1, 1}), 2)}, 0})[0];
  const Operand m = parameter(inside, 2), sum = parameter(Array(per_channel), 1);
  const Call masked{OpKind::masked_stats, {count}, {s, m}, {parameter(Array(moments), 2), parameter(Array(moments), 2)}, 0};
  const Call sums{OpKind::masked_sums, {count}, {parameter(totals[0], 1), parameter(totals[1], 1), m}, {sum, sum}, 0};
  const Call inner{OpKind::bn_masked_apply, attrs, {tensor(x), s, g, b, m}, {tensor(Array(in))}, 5};
  f.calls = {statistics, apply, reduce, data, running, masked, sums, inner};
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
const Listed batchnorm_listed{"batchnorm", batchnorm_family, 30};

/// Batch norm and rectifier in one, held against the two after each other by way of finite differences.
Family bnrelu_family(Random& r) {
  Family f;
  Dims in = image(r);
  in[3] = std::max<int64_t>(in[3], 4);  // behind the norm of two every gradient is zero in truth
  const Dims per_channel{in[1], 1, 1, 1}, moments{4, in[1], 1, 1};
  const double count = double(in[0] * in[2] * in[3]);
  const std::vector<double> attrs{r.pick({1e-5, 1e-3}), count, r.pick({0.0, 0.1})};
  const Array x = r.normal(in, 2, 3), dy = r.normal(in), gamma = r.normal(per_channel), beta = r.normal(per_channel);
  const Operand s = parameter(reference({OpKind::bn_stats, {}, {tensor(x)}, {parameter(Array(moments), 2)}, 0})[0], 2);
  const Operand g = parameter(gamma, 1), b = parameter(beta, 1);
  const Call apply{OpKind::bn_relu_apply, attrs, {tensor(x), s, g, b}, {tensor(Array(in))}, 4};
  const Call reduce{OpKind::bn_relu_bwd_reduce,
                    attrs,
                    {tensor(x), tensor(dy), s, g, b},
                    {parameter(Array(per_channel), 1), parameter(Array(per_channel), 1)},
                    1};
  const std::vector<Array> totals = reference(reduce);
  const Call data{OpKind::bn_relu_bwd_data,
                  attrs,
                  {tensor(x), tensor(dy), s, g, b, parameter(totals[0], 1), parameter(totals[1], 1)},
                  {tensor(Array(in))},
                  1,
                  {},
                  false,
                  1};
  f.calls = {apply, reduce, data};
  f.gradients = {gradient_of(apply, 2, dy, totals[0]), gradient_of(apply, 3, dy, totals[1])};
  return f;
}
const Listed bnrelu_listed{"batchnorm with relu", bnrelu_family, 30};

/// Norm, sum and rectifier in one.
Family residualnorm_family(Random& r) {
  Family f;
  Dims in = image(r);
  if (r.chance(0.5)) in[1] = r.between(20, 80);  // more channels than a register, or a word, holds
  in[3] = std::max<int64_t>(in[3], 4);
  const Dims per_channel{in[1], 1, 1, 1}, moments{4, in[1], 1, 1}, words{in[0], (in[1] + 31) / 32, in[2], in[3]};
  const double count = double(in[0] * in[2] * in[3]);
  const std::vector<double> attrs{r.pick({1e-5, 1e-3}), count, r.pick({0.0, 0.1})};
  const Array x = r.normal(in, 2, 3), shortcut = r.normal(in), dy = r.normal(in), gamma = r.normal(per_channel),
              beta = r.normal(per_channel);
  const Operand s = parameter(reference({OpKind::bn_stats, {}, {tensor(x)}, {parameter(Array(moments), 2)}, 0})[0], 2);
  const Operand g = parameter(gamma, 1), b = parameter(beta, 1);
  const Call apply{OpKind::bn_add_relu_apply,
                   attrs,
                   {tensor(x), tensor(shortcut), s, g, b},
                   {tensor(Array(in)), labelled(Array(words))},
                   5,
                   {},
                   false,
                   1};
  const Operand signs = labelled(reference(apply)[1]);
  const Call reduce{OpKind::bn_add_relu_bwd_reduce,
                    attrs,
                    {tensor(x), tensor(dy), signs, s},
                    {parameter(Array(per_channel), 1), parameter(Array(per_channel), 1)},
                    1};
  const std::vector<Array> totals = reference(reduce);
  const Call data{OpKind::bn_add_relu_bwd_data,
                  attrs,
                  {tensor(x), tensor(dy), signs, s, g, parameter(totals[0], 1), parameter(totals[1], 1)},
                  {tensor(Array(in)), tensor(Array(in))},
                  1,
                  {},
                  false,
                  1};
  f.calls = {apply, reduce, data};
  const std::vector<Array> gradients = reference(data);
  const auto joined = [apply, moments](const Array& moved) {
    Call call = apply;
    call.ins[0].value = moved;
    call.ins[2].value = reference({OpKind::bn_stats, {}, {tensor(moved)}, {parameter(Array(moments), 2)}, 0})[0];
    return reference(call)[0];
  };
  f.gradients = {{"residual norm by x " + text(in), joined, x, dy, gradients[1]},
                 gradient_of(apply, 1, dy, gradients[0]),
                 gradient_of(apply, 3, dy, totals[0]),
                 gradient_of(apply, 4, dy, totals[1])};
  return f;
}
const Listed residualnorm_listed{"residual batchnorm", residualnorm_family, 30};

/// Batch norm of values so wide, side by side along C; its gradient by itself and added onto one that is some `step`s wider.
Family joinednorm_calls(Random& r, const std::vector<int64_t>& widths, int64_t step = 1) {
  Family f;
  Dims in = image(r);
  in[3] = std::max<int64_t>(in[3], 4);
  const double count = double(in[0] * in[2] * in[3]);
  std::vector<Operand> parts, moments;
  in[1] = 0;
  for (const int64_t width : widths) {
    const Dims part{in[0], width, in[2], in[3]};
    in[1] += part[1];
    parts.push_back(tensor(r.normal(part, 2, 3)));
    moments.push_back(parameter(reference({OpKind::bn_stats, {}, {parts.back()}, {parameter(Array({4, part[1], 1, 1}), 2)}, 0})[0], 2));
  }
  const auto with_parts = [&](std::vector<Operand> first) {
    first.insert(first.end(), parts.begin(), parts.end());
    return first;
  };
  const Dims per_channel{in[1], 1, 1, 1}, wider{in[0], in[1] + step * r.between(0, 9), in[2], in[3]};
  const Call join{OpKind::join_stats, {count}, moments, {parameter(Array({4, in[1], 1, 1}), 2)}, 0};
  const Array dy = r.normal(in), gamma = r.normal(per_channel), beta = r.normal(per_channel);
  const Operand s = parameter(reference(join)[0], 2), g = parameter(gamma, 1), b = parameter(beta, 1);
  const std::vector<double> attrs{r.pick({1e-5, 1e-3}), count, r.pick({0.0, 0.1, 1.0})};
  const Call apply{OpKind::joined_norm, attrs, with_parts({s, g, b}), {tensor(Array(in))}, 3 + parts.size()};
  const Call reduce{OpKind::joined_norm_bwd_reduce,
                    attrs,
                    with_parts({tensor(dy), s, g, b}),
                    {parameter(Array(per_channel), 1), parameter(Array(per_channel), 1)},
                    0};
  const std::vector<Array> totals = reference(reduce);
  const std::vector<Operand> known{tensor(dy), s, g, b, parameter(totals[0], 1), parameter(totals[1], 1)};
  Call data{OpKind::joined_norm_bwd_data, {attrs[0], attrs[1], attrs[2], 0}, with_parts(known), {tensor(Array(in))}, 0, {}, false, 0};
  Call onto = data;
  onto.attrs[3] = 1;
  onto.ins.insert(onto.ins.begin() + 6, tensor(r.normal(wider)));
  f.calls = {join, apply, reduce, data, onto};
  f.gradients = {gradient_of(apply, 1, dy, totals[0]), gradient_of(apply, 2, dy, totals[1])};
  return f;
}

Family joinednorm_family(Random& r) {
  std::vector<int64_t> widths(size_t(r.between(2, 4)));
  const int64_t step = r.pick<int64_t>({1, 1, 8});  // 16 bytes side by side in each
  for (int64_t& width : widths) width = step == 1 ? channels(r) : step * r.between(1, 3);
  return joinednorm_calls(r, widths, step);
}
const Listed joinednorm_listed{"joined batchnorm", joinednorm_family, 30};

/// More values than a kernel of the cuda device takes at a time.
Family many_joined_family(Random& r) {
  std::vector<int64_t> widths(size_t(r.between(33, 40)));
  for (int64_t& width : widths) width = r.between(1, 3);
  return joinednorm_calls(r, widths);
}
const Listed many_joined_listed{"many joined batchnorm", many_joined_family, 3};

Family frozen_family(Random& r) {
  Family f;
  const Dims in = image(r), per_channel{in[1], 1, 1, 1};
  const Array x = r.normal(in, 2, 3), dy = r.normal(in);
  const Operand mean = parameter(r.normal(per_channel), 1), variance = parameter(r.positive(per_channel), 1);
  const Operand gamma = parameter(r.normal(per_channel), 1), beta = parameter(r.normal(per_channel), 1);
  const Call forward{OpKind::bn_frozen, {1e-5}, {tensor(x), mean, variance, gamma, beta}, {tensor(Array(in))}, 5};
  const Call data{OpKind::bn_frozen_bwd_data, {1e-5}, {tensor(dy), variance, gamma}, {tensor(Array(in))}, 0};
  const Call reduce{OpKind::bn_frozen_bwd_reduce,
                    {1e-5},
                    {tensor(x), tensor(dy), mean, variance},
                    {parameter(Array(per_channel), 1), parameter(Array(per_channel), 1)},
                    1};
  const std::vector<Array> totals = reference(reduce);
  f.calls = {forward, data, reduce};
  f.gradients = {gradient_of(forward, 0, dy, reference(data)[0]), gradient_of(forward, 3, dy, totals[0]),
                 gradient_of(forward, 4, dy, totals[1])};
  return f;
}
const Listed frozen_listed{"frozen batchnorm", frozen_family, 20};

/// Between one group (layer norm) and one channel a group (instance norm), with scale and shift or without.
Family groupnorm_family(Random& r) {
  Family f;
  Dims in = image(r);
  const int64_t groups = r.pick<int64_t>({1, 1, 2, 3}), size = r.between(1, 9);
  in[1] = r.chance(0.4) ? in[1] : groups * size;
  const int64_t divided = r.chance(0.4) || in[1] % groups != 0 ? in[1] : groups;
  // One value has no variance, and behind the norm of two every gradient is zero in truth.
  in[3] = std::max<int64_t>(in[3], 4);
  const double count = double(in[1] / divided * in[2] * in[3]), eps = r.pick({1e-5, 1e-3});
  const bool affine = r.chance(0.6);
  const std::vector<double> attrs{double(divided), eps, count};
  const Dims per_channel{in[1], 1, 1, 1}, of_images{in[0], 4 * divided, 1, 1}, sums{in[0], 2 * in[1], 1, 1};
  const Array x = r.normal(in, 2, 3), dy = r.normal(in), gamma = r.normal(per_channel), beta = r.normal(per_channel);
  const Call statistics{OpKind::group_norm_stats, {double(divided)}, {tensor(x)}, {tensor(Array(of_images), Reach::all)}, 0};
  const Operand s = tensor(reference(statistics)[0], Reach::all);
  Call apply{OpKind::group_norm_apply, attrs, {tensor(x), s}, {tensor(Array(in))}, 2};
  Call reduce{OpKind::group_norm_bwd_reduce, attrs, {tensor(x), tensor(dy), s}, {tensor(Array(sums), Reach::all)}, 1};
  if (affine) {
    apply.ins.insert(apply.ins.end(), {parameter(gamma, 1), parameter(beta, 1)});
    apply.anchor = 4;
    reduce.outs.insert(reduce.outs.end(), {parameter(Array(per_channel), 1), parameter(Array(per_channel), 1)});
  }
  const std::vector<Array> totals = reference(reduce);
  Call data{OpKind::group_norm_bwd_data, attrs, {tensor(x), tensor(dy), s, tensor(totals[0], Reach::all)}, {tensor(Array(in))}, 1};
  if (affine) data.ins.push_back(parameter(gamma, 1));
  f.calls = {statistics, apply, reduce, data};
  const auto normalised = [statistics, apply](const Array& moved) {
    Call first = statistics, second = apply;
    first.ins[0].value = second.ins[0].value = moved;
    second.ins[1].value = reference(first)[0];
    return reference(second)[0];
  };
  f.gradients = {{"group norm by x " + text(in), normalised, x, dy, reference(data)[0]}};
  if (affine) {
    f.gradients.push_back(gradient_of(apply, 2, dy, totals[1]));
    f.gradients.push_back(gradient_of(apply, 3, dy, totals[2]));
  }
  return f;
}
const Listed groupnorm_listed{"group norm", groupnorm_family, 40};

/// Weights of a few output channels, also larger than a block of the GPU.
Family standardize_family(Random& r) {
  Family f;
  const Dims size{r.between(1, 9), r.between(1, 70), r.between(1, 3), r.between(1, 3)};
  const std::vector<double> attrs{1e-3};
  const Array w = r.normal(size, 0.5, 2), dy = r.normal(size);
  const Call forward{OpKind::standardize, attrs, {parameter(w, 4)}, {laid_out(Array(size))}, 0, {}, true};
  const Call back{OpKind::standardize_bwd, attrs, {parameter(dy, 4), parameter(w, 4)}, {parameter(Array(size), 4)}, 0};
  f.calls = {forward, back};
  f.gradients = {gradient_of(forward, 0, dy, reference(back)[0])};
  return f;
}
const Listed standardize_listed{"standardize", standardize_family, 30};

}  // namespace
}  // namespace spillway::test
