// Random cases of attention in windows, grids and shifted windows, with a class token, with and without a table, of attention to another
// value, and of exchanged pixels and channels.
#include "test/native/kernels/families.hpp"

namespace spillway::test {
namespace {

Family attention_family(Random& r) {
  Family f;
  const int64_t heads = r.between(1, 3), head = r.pick<int64_t>({1, 3, 8, 17, 33}), biased = r.between(0, 1);
  const bool has_token = r.chance(0.3);
  const int64_t grid = has_token ? 0 : r.between(0, 1), rows = r.between(1, has_token ? 3 : 5), columns = r.between(1, has_token ? 3 : 5);
  const int64_t height = has_token ? 1 : rows, width = has_token ? 1 + rows * columns : columns, down = r.between(1, 2),
                across = r.between(1, 2);
  const bool shifted = !has_token && grid == 0 && r.between(0, 1) == 1;
  const int64_t shift_h = shifted ? r.between(0, height - 1) : 0, shift_w = shifted ? r.between(0, width - 1) : 0;
  const std::vector<double> attrs{double(heads),
                                  double(r.between(0, 1)),
                                  double(height),
                                  double(width),
                                  double(grid),
                                  double(shift_h),
                                  double(shift_w),
                                  double(biased),
                                  1 / std::sqrt(double(head)),
                                  double(has_token ? columns : 0)};
  const Dims in{r.between(1, 3), 3 * heads * head, down * height, across * width}, out{in[0], heads * head, in[2], in[3]};
  const Dims of_table{(2 * rows - 1) * (2 * columns - 1) + (has_token ? 3 : 0), heads, 1, 1};
  const Array x = r.normal(in), dy = r.normal(out), table = r.normal(of_table);
  Call forward{OpKind::attention, attrs, {tensor(x, Reach::all)}, {tensor(Array(out), Reach::all)}, 1, {}, true};
  Call back{OpKind::attention_bwd, attrs, {tensor(x, Reach::all), tensor(dy, Reach::all)}, {tensor(Array(in), Reach::all)}, 1, {}, true};
  if (biased) {
    forward.anchor = 2;
    forward.ins.push_back(parameter(table, 2));
    back.ins.push_back(parameter(table, 2));
    back.outs.push_back(parameter(Array(of_table), 2));
  }
  f.calls = {forward, back};
  const std::vector<Array> made = reference(back);
  f.gradients = {gradient_of(forward, 0, dy, made[0])};
  if (biased) f.gradients.push_back(gradient_of(forward, 1, dy, made[1]));
  return f;
}
const Listed attention_listed{"attention", attention_family, 40};

Family attend_family(Random& r) {
  Family f;
  const int64_t heads = r.between(1, 3), head = r.pick<int64_t>({1, 3, 8, 17, 33});
  const std::vector<double> attrs{double(heads), double(r.between(0, 1)), 1 / std::sqrt(double(head))};
  const Dims of_q{r.between(1, 3), heads * head, r.between(1, 7), r.between(1, 7)};
  const Dims of_kv{of_q[0], 2 * heads * head, r.between(1, 5), r.between(1, 5)};
  const Array q = r.normal(of_q), kv = r.normal(of_kv), dy = r.normal(of_q);
  const Call forward{
      OpKind::attend, attrs, {tensor(q, Reach::all), tensor(kv, Reach::all)}, {tensor(Array(of_q), Reach::all)}, 2, {}, true};
  const Call back{OpKind::attend_bwd,
                  attrs,
                  {tensor(q, Reach::all), tensor(kv, Reach::all), tensor(dy, Reach::all)},
                  {tensor(Array(of_q), Reach::all), tensor(Array(of_kv), Reach::all)},
                  2,
                  {},
                  true};
  f.calls = {forward, back};
  const std::vector<Array> made = reference(back);
  f.gradients = {gradient_of(forward, 0, dy, made[0]), gradient_of(forward, 1, dy, made[1])};
  return f;
}
const Listed attend_listed{"attend", attend_family, 30};

Family turned_family(Random& r) {
  Family f;
  const Dims in = image(r), turned{in[0], in[2] * in[3], 1, in[1]};
  const Array x = r.normal(in), dy = r.normal(turned);
  const Call forward{OpKind::turn_pixels, {}, {tensor(x, Reach::all)}, {tensor(Array(turned), Reach::all)}, 1, {}, true};
  const Call back{OpKind::turn_pixels_bwd, {}, {tensor(dy, Reach::all)}, {tensor(Array(in), Reach::all)}, 0, {}, true};
  f.calls = {forward, back};
  f.gradients = {gradient_of(forward, 0, dy, reference(back)[0])};
  return f;
}
const Listed turned_listed{"turn_pixels", turned_family, 15};

}  // namespace
}  // namespace spillway::test
