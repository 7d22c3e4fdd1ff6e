// Random element-wise operators, joins, losses and the calls that tiling adds.
#include "test/native/kernels/families.hpp"

namespace spillway::test {
namespace {

Family lrn_family(Random& r) {
  const Dims in = image(r);
  const Array x = r.normal(in, 2), dy = r.normal(in);
  const std::vector<double> attrs{double(r.between(1, 7)), r.pick({1e-4, 0.5}), r.pick({0.75, 1.0}), r.pick({1.0, 2.0})};
  const Call forward{OpKind::lrn, attrs, {tensor(x)}, {tensor(Array(in))}, 1};
  const Call back{OpKind::lrn_bwd, attrs, {tensor(x), tensor(dy)}, {tensor(Array(in))}, 1};
  return {{forward, back}, {gradient_of(forward, 0, dy, reference(back)[0])}};
}
const Listed lrn_listed{"lrn", lrn_family, 25};

Family join_family(Random& r) {
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
  Call grad_sum = add, add_relu = add;
  grad_sum.kind = OpKind::grad_sum;
  add_relu.kind = OpKind::add_relu;
  add_relu.attrs = {r.pick({0.0, 0.1})};
  const Array dy = r.normal(joined), dsum = r.normal(in);
  const int64_t from = concat.ins[0].value.dims[1];
  const Call slice{OpKind::slice_channels, {double(from)}, {tensor(dy)}, {tensor(Array(concat.ins[1].value.dims))}, 0};
  f.calls = {add, add_relu, concat, grad_sum, slice};
  f.gradients = {gradient_of(add, 1, dsum, dsum), gradient_of(concat, 1, dy, reference(slice)[0])};
  return f;
}
const Listed join_listed{"add, concat", join_family, 25};

/// A slice within the channels, and a shuffle in groups of several channels.
Family channels_family(Random& r) {
  Family f;
  const int64_t groups = r.between(2, 4), from = r.between(1, 3), count = r.between(1, 5);
  Dims in = image(r);
  in[1] = groups * r.between(4, 20);
  const Dims part{in[0], count, in[2], in[3]};
  const Array x = r.normal(in), dpart = r.normal(part), dy = r.normal(in);
  const Call take{OpKind::take_channels, {double(from), double(count)}, {tensor(x)}, {tensor(Array(part))}, 1};
  const Call put{OpKind::put_channels, {double(from), double(in[1])}, {tensor(dpart)}, {tensor(Array(in))}, 0};
  const Call shuffle{OpKind::shuffle_channels, {double(groups)}, {tensor(x)}, {tensor(Array(in))}, 1};
  const Call back{OpKind::shuffle_channels_bwd, {double(groups)}, {tensor(dy)}, {tensor(Array(in))}, 0};
  f.calls = {take, put, shuffle, back};
  f.gradients = {gradient_of(take, 0, dpart, reference(put)[0]), gradient_of(shuffle, 0, dy, reference(back)[0])};
  return f;
}
const Listed channels_listed{"take_channels, shuffle_channels", channels_family, 20};

Family flatten_family(Random& r) {
  Family f;
  const Dims in = image(r), flat{in[0], in[1] * in[2] * in[3], 1, 1};
  const Array x = r.normal(in), dy = r.normal(flat);
  const Call forward{OpKind::flatten, {}, {tensor(x, Reach::all)}, {tensor(Array(flat), Reach::all)}, 1, {}, true};
  const Call back{OpKind::flatten_bwd, {}, {tensor(dy, Reach::all)}, {tensor(Array(in), Reach::all)}, 0, {}, true};
  f.calls = {forward, back};
  f.gradients = {gradient_of(forward, 0, dy, reference(back)[0])};
  return f;
}
const Listed flatten_listed{"flatten", flatten_family, 15};

/// For each class, none of it or some; or nothing at all.
std::vector<double> class_weights(Random& r, int64_t classes) {
  std::vector<double> weights;
  if (r.between(0, 3) > 0) {
    for (int64_t k = 0; k < classes; k++) weights.push_back(r.pick({0.0, 0.25, 1.0, 3.0}));
    weights[size_t(r.between(0, int(classes) - 1))] = 2;
  }
  return weights;
}

Family class_loss_of(Random& r, const Dims& in) {
  Family f;
  const Dims places{in[0], 1, in[2], in[3]};
  const Array x = r.normal(in, 2), one = [] {
    Array a;
    a.data = {1};
    return a;
  }();
  const std::vector<double> attrs{double(count_of(places)), r.pick({1.0, 2.5})};
  const Operand labels = labelled(r.labels(places, in[1]));
  const Call xent{OpKind::softmax_xent, attrs, {tensor(x), labels}, {parameter(Array(), 1)}, 0};
  const Call back{OpKind::softmax_xent_bwd, attrs, {tensor(x), labels}, {tensor(Array(in))}, 0};
  const double ignored = r.pick({-1.0, 0.0, 1.0, 255.0});
  const Call count{OpKind::count_labels, {ignored}, {labels}, {parameter(Array(Dims{2, 1, 1, 1}), 1)}, 0};
  const Operand counted = parameter(reference(count)[0], 1);
  const Call some{OpKind::softmax_xent_counted, {ignored, attrs[1]}, {tensor(x), labels, counted}, {parameter(Array(), 1)}, 0};
  const Call some_back{OpKind::softmax_xent_counted_bwd, some.attrs, some.ins, {tensor(Array(in))}, 0};
  const double nothing = r.pick({-2147483648.0, ignored});
  const Call classes{OpKind::count_classes, {nothing, double(in[1])}, {labels}, {parameter(Array(Dims{2, in[1], 1, 1}), 2)}, 0};
  const Call weigh{OpKind::weigh_classes,
                   class_weights(r, in[1]),
                   {parameter(reference(classes)[0], 2)},
                   {parameter(Array(Dims{in[1], 1, 1, 1}), 1)},
                   0};
  const Operand factors = parameter(reference(weigh)[0], 1);
  const Call weighed{
      OpKind::class_xent, {nothing, r.pick({0.0, 0.1, 1.0}), attrs[1]}, {tensor(x), labels, factors}, {parameter(Array(), 1)}, 0};
  const Call weighed_back{OpKind::class_xent_bwd, weighed.attrs, weighed.ins, {tensor(Array(in))}, 0};
  f.calls = {xent, back, count, some, some_back, classes, weigh, weighed, weighed_back};
  f.gradients = {gradient_of(xent, 0, one, reference(back)[0]), gradient_of(some, 0, one, reference(some_back)[0]),
                 gradient_of(weighed, 0, one, reference(weighed_back)[0])};
  return f;
}

Family class_loss_family(Random& r) { return class_loss_of(r, image(r)); }

/// The cuda device gives each pixel of them a block.
Family many_classes_family(Random& r) {
  const Dims in{r.between(1, 3), r.between(250, 600), r.between(1, 2), r.between(1, 3)};
  Family f = class_loss_of(r, in);
  const std::vector<double> attrs{double(in[0] * in[2] * in[3]), r.pick({1.0, 2.5}), r.pick({0.0, 0.25})};
  const Operand x = tensor(r.normal(in, 2)), target = tensor(r.positive(in));
  f.calls.push_back({OpKind::soft_xent, attrs, {x, target}, {parameter(Array(), 1)}, 0});
  f.calls.push_back({OpKind::soft_xent_bwd, attrs, {x, target}, {tensor(Array(in))}, 0});
  return f;
}

/// Sums of each class, their total, and both gradients.
Family dice_family(Random& r) {
  Family f;
  Dims in = image(r);
  if (r.pick({0.0, 0.0, 1.0}) > 0) in[1] = 1;
  const Dims places{in[0], 1, in[2], in[3]}, per_class{3, in[1], 1, 1};
  const Array x = r.normal(in, 2), one = [] {
    Array a;
    a.data = {1};
    return a;
  }();
  const Operand labels = labelled(r.labels(places, in[1] == 1 ? 2 : in[1]));
  const Call sums{OpKind::dice_sums, {r.pick({-2147483648.0, 0.0, 1.0})}, {tensor(x), labels}, {parameter(Array(per_class), 2)}, 0};
  const Array summed = reference(sums)[0];
  std::vector<double> attrs{r.pick({1e-5, 1.0}), r.pick({1.0, 2.5})};
  for (const double w : class_weights(r, in[1])) attrs.push_back(w);
  const Call dice{OpKind::dice, attrs, {parameter(summed, 2)}, {parameter(Array(), 1)}, 0};
  const Call back{OpKind::dice_bwd, dice.attrs, dice.ins, {parameter(Array(per_class), 2)}, 0};
  Array slopes = reference(back)[0];
  for (int64_t k = 2 * in[1]; k < 3 * in[1]; k++) slopes.data[size_t(k)] = 0;
  const Call sums_back{OpKind::dice_sums_bwd, sums.attrs, {tensor(x), labels, parameter(slopes, 2)}, {tensor(Array(in))}, 0};
  const Call numbers{OpKind::label_numbers, {}, {labels}, {tensor(Array(places))}, 0};
  Array mask(places);
  for (double& v : mask.data) v = double(r.between(0, 1));
  const Call inside{OpKind::mask_labels, {r.pick({-2147483648.0, 7.0})}, {labels, tensor(mask)}, {labelled(Array(places))}, 0};
  f.calls = {sums, dice, back, sums_back, numbers, inside};
  f.gradients = {gradient_of(sums, 0, slopes, reference(sums_back)[0])};
  return f;
}
const Listed dice_listed{"dice", dice_family, 15};

const Listed class_loss_listed{"class loss", class_loss_family, 15};
const Listed many_classes_listed{"class loss of many classes", many_classes_family, 6};

/// The largest of several channels; for one, 1 above zero.
Family argmax_family(Random& r) {
  Family f;
  Dims in = image(r);
  if (r.between(0, 3) == 0) in[1] = 1;
  f.calls = {{OpKind::argmax, {}, {tensor(r.normal(in, 2))}, {labelled(Array(Dims{in[0], 1, in[2], in[3]}))}, 1}};
  return f;
}
const Listed argmax_listed{"argmax", argmax_family, 15};

/// Parameters' gradients of every rank.
Family paramsum_family(Random& r) {
  Family f;
  const int rank = int(r.between(1, 4));
  Dims d{r.between(1, 200), 1, 1, 1};
  for (int i = 1; i < rank; i++) d[size_t(i)] = r.between(1, 9);
  Call sum{OpKind::param_grad_sum, {}, {}, {parameter(Array(d), rank)}, 0, {}, false, 0};
  for (int64_t i = r.between(2, 4); i > 0; i--) sum.ins.push_back(parameter(r.normal(d), rank));
  f.calls = {sum};
  return f;
}
const Listed paramsum_listed{"sum of a parameter's gradients", paramsum_family, 10};

Family plumbing_family(Random& r) {
  Family f;
  const Dims in = image(r), moments{4, in[1], 1, 1}, weights{in[1], 3, 2, 2};
  const Operand x = tensor(r.normal(in)), y = tensor(r.normal(in));
  const Operand first = parameter(r.positive(moments), 2), second = parameter(r.positive(moments), 2);
  const Dims per_image{in[0], 4 * in[1], 1, 1};
  const Operand images = tensor(r.positive(per_image)), others = tensor(r.positive(per_image));
  f.calls = {{OpKind::fill, {0.25}, {}, {tensor(Array(in))}, 0},
             {OpKind::fill, {-1}, {}, {parameter(Array(weights), 4)}, 0},
             {OpKind::copy, {}, {x}, {tensor(Array(in))}, 1},
             {OpKind::copy, {}, {parameter(r.normal(weights), 4)}, {parameter(Array(weights), 4)}, 1},
             {OpKind::merge_sum, {}, {x}, {y}, 0},
             {OpKind::merge_sum, {}, {parameter(r.normal(weights), 4)}, {parameter(r.normal(weights), 4)}, 0},
             {OpKind::merge_moments, {7, 0}, {first}, {second}, 0},
             {OpKind::merge_moments, {7, 12}, {first}, {second}, 0},
             {OpKind::merge_moments, {7, 0}, {images}, {others}, 0},
             {OpKind::merge_moments, {7, 12}, {images}, {others}, 0}};
  return f;
}
const Listed plumbing_listed{"plumbing", plumbing_family, 15};

}  // namespace
}  // namespace spillway::test
