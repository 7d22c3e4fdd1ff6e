// Random resamplings (nearest, bilinear over areas and over points; larger, smaller and equal sizes), reflections, and pixel shuffles.
#include "test/native/kernels/families.hpp"

namespace spillway::test {
namespace {

/// The first and the last input pixel that output pixels [lo, hi) are made of, by PyTorch's formulas.
std::pair<int64_t, int64_t> interpolated(int64_t mode, int64_t from, int64_t to, int64_t lo, int64_t hi) {
  if (mode == 3) return {lo * from / to, (hi * from + to - 1) / to - 1};
  const auto place = [=](int64_t i) -> double {
    if (mode == 0) return std::floor(double(i) * double(from) / double(to));
    if (mode == 1) return std::max(0.0, (double(i) + 0.5) * double(from) / double(to) - 0.5);
    return to > 1 ? double(i) * double(from - 1) / double(to - 1) : 0;
  };
  const double rounding = 1e-9;  // these places are rounded; those of the kernels are not
  return {int64_t(std::floor(place(lo) + rounding)), std::min(from - 1, int64_t(std::ceil(place(hi - 1) - rounding)))};
}

Family upsample_family(Random& r) {
  const Dims in = image(r);
  Dims out = in;
  const bool doubling = r.chance(0.4);
  for (int d = 2; d < 4; d++) out[d] = doubling ? 2 * in[d] : r.between(1, 25);
  const int64_t mode = r.between(0, 3);
  const std::vector<double> attrs{double(mode), double(in[2]), double(in[3]), double(out[2]), double(out[3])};
  const Array x = r.normal(in), dy = r.normal(out);
  Call forward{OpKind::upsample, attrs, {tensor(x, Reach::met)}, {tensor(Array(out))}, 1};
  Call back{OpKind::upsample_bwd, attrs, {tensor(dy)}, {tensor(Array(in), Reach::met)}, 0};
  for (Call* call : {&forward, &back})
    call->meets = [=](int axis, int64_t lo, int64_t hi) { return interpolated(mode, in[2 + axis], out[2 + axis], lo, hi); };
  return {{forward, back}, {gradient_of(forward, 0, dy, reference(back)[0])}};
}
const Listed upsample_listed{"upsample", upsample_family, 60};

Family reflect_pad_family(Random& r) {
  const Dims in = image(r);
  int64_t before[2], after[2];
  Dims out = in;
  for (int axis = 0; axis < 2; axis++) {
    before[axis] = r.between(0, std::min<int64_t>(4, in[2 + axis] - 1));
    after[axis] = r.between(0, std::min<int64_t>(4, in[2 + axis] - 1));
    out[2 + axis] += before[axis] + after[axis];
  }
  const std::vector<double> attrs{double(before[0]), double(before[1]), double(after[0]), double(after[1])};
  const Array x = r.normal(in), dy = r.normal(out);
  Call forward{OpKind::reflect_pad, attrs, {tensor(x, Reach::met)}, {tensor(Array(out))}, 1};
  Call back{OpKind::reflect_pad_bwd, attrs, {tensor(dy)}, {tensor(Array(in), Reach::met)}, 0};
  const int64_t pads[2] = {before[0], before[1]};
  for (Call* call : {&forward, &back})
    call->meets = [=](int axis, int64_t lo, int64_t hi) {
      std::pair<int64_t, int64_t> range{in[2 + axis], -1};
      for (int64_t i = lo; i < hi; i++) {
        int64_t row = std::abs(i - pads[axis]);
        if (row >= in[2 + axis]) row = 2 * (in[2 + axis] - 1) - row;
        range = {std::min(range.first, row), std::max(range.second, row)};
      }
      return range;
    };
  return {{forward, back}, {gradient_of(forward, 0, dy, reference(back)[0])}};
}
const Listed reflect_pad_listed{"reflect_pad", reflect_pad_family, 40};

Family pixel_shuffle_family(Random& r) {
  const int64_t factor = r.between(1, 4);
  Dims fine = image(r);
  fine[1] = r.between(1, 20);
  Dims coarse = fine;
  coarse[1] *= factor * factor;
  fine[2] *= factor;
  fine[3] *= factor;
  const std::vector<double> attrs{double(factor)};
  const Array few = r.normal(fine), many = r.normal(coarse);
  // A fine pixel meets its block; a block meets all of its pixels.
  const auto block = [=](int, int64_t lo, int64_t hi) { return std::pair{lo / factor, (hi - 1) / factor}; };
  const auto pixels = [=](int, int64_t lo, int64_t hi) { return std::pair{lo * factor, hi * factor - 1}; };
  Call shuffle{OpKind::pixel_shuffle, attrs, {tensor(many, Reach::met)}, {tensor(Array(fine))}, 1};
  Call shuffle_back{OpKind::pixel_shuffle_bwd, attrs, {tensor(few)}, {tensor(Array(coarse), Reach::met)}, 0};
  Call unshuffle{OpKind::pixel_unshuffle, attrs, {tensor(few, Reach::met)}, {tensor(Array(coarse))}, 1};
  Call unshuffle_back{OpKind::pixel_unshuffle_bwd, attrs, {tensor(many)}, {tensor(Array(fine), Reach::met)}, 0};
  shuffle.meets = shuffle_back.meets = block;
  unshuffle.meets = unshuffle_back.meets = pixels;
  return {{shuffle, shuffle_back, unshuffle, unshuffle_back},
          {gradient_of(shuffle, 0, few, reference(shuffle_back)[0]), gradient_of(unshuffle, 0, many, reference(unshuffle_back)[0])}};
}
const Listed pixel_shuffle_listed{"pixel_shuffle", pixel_shuffle_family, 30};

}  // namespace
}  // namespace spillway::test
