// Convolutions that skip zeros: results and both gradients equal those of `ref`, whose kernels compute all pixels, within rounding. The
// bits are the same for one to four threads, and the reported share is 0 for an image without zeros. Kernels that leave out the pixels
// outside of a mask have the bits of those that compute them, with 0 outside.
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "core/half.hpp"
#include "core/kernel.hpp"
#include "gen/ops.h"
#include "test/native/checking.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

#ifdef SPILLWAY_WITH_CPU

constexpr uint32_t DIRECT = 0, WINOGRAD = 1;
constexpr double WITHIN = 1e-4;

/// One value and its view, channels innermost where it is an activation.
struct Value {
  std::vector<float> numbers;
  View view;
  bool activation = false;
};

Value value_of(std::vector<int64_t> dims, bool activation) {
  Value v;
  v.view.rank = uint32_t(dims.size());
  v.activation = activation;
  int64_t elements = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    v.view.dims[d] = v.view.extent[d] = dims[d];
    v.view.strides[d] = elements;
    elements *= dims[d];
  }
  if (activation) {
    v.view.strides[1] = 1;
    v.view.strides[3] = dims[1];
    v.view.strides[2] = dims[1] * dims[3];
    v.view.strides[0] = dims[1] * dims[3] * dims[2];
  }
  v.numbers.resize(size_t(elements));
  return v;
}

using IsEmpty = std::function<bool(int64_t row, int64_t column)>;

void draw(Value& v, uint32_t seed, const IsEmpty& is_empty = {}) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> numbers(-0.5f, 0.5f);
  for (size_t i = 0; i < v.numbers.size(); i++) {
    const int64_t pixel = int64_t(i) / v.view.dims[1], row = pixel / v.view.dims[3] % v.view.dims[2], column = pixel % v.view.dims[3];
    v.numbers[i] = numbers(random);
    if (is_empty && is_empty(row, column)) v.numbers[i] = i % 2 ? 0.0f : -0.0f;
  }
}

struct Convolution {
  int64_t batch, in, out, rows, columns, kernel, stride, pad, dilation;
  int64_t after(int64_t size) const { return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; }
};

struct Ran {
  std::vector<std::vector<float>> outs;
  double skipped = 0;
};

/// An operator, its attributes and operands.
struct Case {
  OpKind kind;
  std::vector<Value> ins, outs;
  std::vector<double> attrs;
};

/// How a call runs. `seeks`: the kernel looks for zeros. `mask`: pixels that it leaves out, or null. `in_place`: the output is this input.
struct How {
  uint32_t way = 0;
  bool seeks = false;
  const Value* mask = nullptr;
  bool fills = true, bf16 = false;
  int in_place = -1;
};

/// Activations as bf16, behind the view of floats.
std::vector<Bf16> halves(Value& v) {
  std::vector<Bf16> numbers(v.numbers.begin(), v.numbers.end());
  v.view.dtype = DType::bf16;
  v.view.data = numbers.data();
  return numbers;
}

Ran run(KernelTable table, Case given, const How& how) {
  Ran ran;
  StepContext step;
  step.skipped = how.seeks ? &ran.skipped : nullptr;
  for (Value& value : given.outs) std::fill(value.numbers.begin(), value.numbers.end(), std::nanf(""));
  if (how.in_place >= 0) given.outs[0].numbers = given.ins[size_t(how.in_place)].numbers;
  Outside outside;
  std::vector<uint8_t> blocks;
  std::vector<View> views;
  std::vector<std::vector<Bf16>> stored;
  stored.reserve(given.ins.size() + given.outs.size() + 1);
  const auto view_of = [&](Value& value) {
    value.view.data = value.numbers.data();
    if (how.bf16 && value.activation) stored.push_back(halves(value));
    return value.view;
  };
  for (std::vector<Value>* side : {&given.ins, &given.outs})
    for (Value& value : *side) views.push_back(view_of(value));
  if (how.in_place >= 0) views[size_t(how.in_place)].data = views[given.ins.size()].data;
  if (how.mask) {
    for (const float number : how.mask->numbers) blocks.push_back(number != 0);
    const auto axis = [&](int d) -> Outside::Axis {
      const int64_t pixels = how.mask->view.dims[d];
      return {0, pixels, pixels, pixels};
    };
    const auto inside = std::count(blocks.begin(), blocks.end(), 1);
    outside = {blocks.data(), axis(2), axis(3), how.fills, inside == int64_t(blocks.size()), inside == 0};
    step.outside = &outside;
  }
  KernelCall call{.kind = uint32_t(given.kind),
                  .ins = views.data(),
                  .n_ins = uint32_t(given.ins.size()),
                  .outs = views.data() + given.ins.size(),
                  .n_outs = uint32_t(given.outs.size()),
                  .attrs = given.attrs.data(),
                  .n_attrs = uint32_t(given.attrs.size()),
                  .way = how.way,
                  .step = &step};
  auto made = table(call.kind)->prepare(call);
  if (!made.ok()) throw std::runtime_error(made.status().message);
  auto kernel = std::move(made).value();
  kernel->compile();
  void* const workspace = std::aligned_alloc(64, size_t(kernel->workspace_bytes() + 64 + 63) / 64 * 64);
  call.workspace = workspace;
  kernel->run(call);
  std::free(workspace);
  for (size_t i = 0; i < given.outs.size(); i++) {
    Value& value = given.outs[i];
    if (value.view.dtype == DType::bf16) {
      const Bf16* const from = static_cast<const Bf16*>(value.view.data);
      std::transform(from, from + value.numbers.size(), value.numbers.begin(), [](Bf16 x) { return float(x); });
    }
    ran.outs.push_back(std::move(value.numbers));
  }
  return ran;
}

std::vector<double> attrs_of(OpKind kind, const Convolution& v) {
  const double s = double(v.stride), p = double(v.pad), d = double(v.dilation);
  std::vector<double> attrs{s, s, p, p, p, p, d, d, 1};
  if (kind == OpKind::conv2d_relu) attrs.push_back(0.25);
  return attrs;
}

bool is_near(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  for (size_t i = 0; i < a.size(); i++) {
    double most = 1e-6, off = 0;
    for (size_t k = 0; k < a[i].size(); k++) {
      if (std::isnan(a[i][k])) return false;
      most = std::max(most, std::abs(double(b[i][k])));
      off = std::max(off, std::abs(double(a[i][k]) - double(b[i][k])));
    }
    if (off > WITHIN * most) return false;
  }
  return true;
}

/// Empty pixels of an image.
struct Mask {
  const char* name;
  IsEmpty is_empty;
  bool has_zeros;
};

std::vector<Mask> masks(std::mt19937& random) {
  const uint32_t seed = uint32_t(random());
  return {{"full", [](int64_t, int64_t) { return false; }, false},
          {"empty", [](int64_t, int64_t) { return true; }, true},
          {"one block", [](int64_t row, int64_t column) { return row / 8 != 1 || column / 8 != 1; }, true},
          {"checkerboard", [](int64_t row, int64_t column) { return (row / 4 + column / 4) % 2 == 0; }, true},
          {"right half", [](int64_t, int64_t column) { return column < 20; }, true},
          {"blocks at random",
           [seed](int64_t row, int64_t column) { return std::mt19937(seed + uint32_t(row / 8 * 64 + column / 8))() % 10 < 7; }, true}};
}

void compare(const Convolution& v, const Mask& mask, uint32_t seed) {
  Value x = value_of({v.batch, v.in, v.rows, v.columns}, true), y = value_of({v.batch, v.out, v.after(v.rows), v.after(v.columns)}, true);
  Value w = value_of({v.out, v.in, v.kernel, v.kernel}, false), bias = value_of({v.out}, false), dy = y;
  draw(x, seed, mask.is_empty);
  draw(dy, seed + 1, [&](int64_t row, int64_t column) { return mask.is_empty(row * v.stride, column * v.stride); });
  draw(w, seed + 2);
  draw(bias, seed + 3);
  Value dense = x;
  draw(dense, seed + 4);
  std::vector<Case> cases = {{OpKind::conv2d, {x, w}, {y}, {}},
                             {OpKind::conv2d, {x, w, bias}, {y}, {}},
                             {OpKind::conv2d_relu, {x, w, bias}, {y}, {}},
                             {OpKind::conv2d_bwd_data, {dy, w}, {x}, {}},
                             {OpKind::conv2d_bwd_weights, {x, dy}, {w}, {}},
                             {OpKind::conv2d_bwd_weights, {dense, dy}, {w, bias}, {}}};
  for (Case& c : cases) {
    c.attrs = attrs_of(c.kind, v);
    const Ran expected = run(ref::kernel, c, {});
    for (const uint32_t way : {DIRECT, WINOGRAD}) {
      if (way == WINOGRAD && (v.kernel != 3 || v.stride != 1)) continue;
      std::vector<Ran> by_threads;
      for (const int threads : {1, 3}) {
        cpu::set_threads(threads);
        by_threads.push_back(run(cpu::kernel, c, {.way = way, .seeks = true}));
        CHECK(is_near(by_threads.back().outs, expected.outs));
        CHECK(by_threads.back().skipped >= 0 && by_threads.back().skipped <= 1);
        // Pixels between strided windows are met by none.
        if (!mask.has_zeros && v.kernel >= v.stride) CHECK(by_threads.back().skipped == 0);
      }
      for (const Ran& ran : by_threads) {
        CHECK(ran.skipped == by_threads[0].skipped);
        // A direct call that skips nothing is oneDNN's, whose bits may depend on the number of threads (7x7 data gradients with AVX2).
        if (way == DIRECT && ran.skipped == 0) continue;
        for (size_t i = 0; i < ran.outs.size(); i++)
          CHECK(std::memcmp(ran.outs[i].data(), by_threads[0].outs[i].data(), ran.outs[i].size() * sizeof(float)) == 0);
      }
    }
  }
}

/// 1 inside of the mask, 0 outside.
Value mask_of(const Value& of, const IsEmpty& is_empty) {
  Value mask = value_of({of.view.dims[0], 1, of.view.dims[2], of.view.dims[3]}, true);
  std::fill(mask.numbers.begin(), mask.numbers.end(), 1.0f);
  for (size_t i = 0; i < mask.numbers.size(); i++)
    if (is_empty(int64_t(i) / mask.view.dims[3] % mask.view.dims[2], int64_t(i) % mask.view.dims[3])) mask.numbers[i] = 0;
  return mask;
}

/// With 0 outside, of either sign.
bool is_equal(const Ran& a, Ran b, const Value* mask) {
  for (size_t i = 0; mask && i < b.outs[0].size(); i++)
    if (mask->numbers[i / (b.outs[0].size() / mask->numbers.size())] == 0) b.outs[0][i] = 0;
  for (size_t i = 0; i < a.outs.size(); i++)
    for (size_t k = 0; k < a.outs[i].size(); k++)
      if (a.outs[i][k] != b.outs[i][k]) return false;
  return true;
}

/// Convolutions that leave out pixels: of the results, or of the gradient, which is 0 there.
void leave_out_of_convolutions(const Convolution& v, const Mask& mask, uint32_t seed, bool bf16) {
  const IsEmpty of_y = [&](int64_t row, int64_t column) { return mask.is_empty(row * v.stride, column * v.stride); };
  Value x = value_of({v.batch, v.in, v.rows, v.columns}, true), y = value_of({v.batch, v.out, v.after(v.rows), v.after(v.columns)}, true);
  Value w = value_of({v.out, v.in, v.kernel, v.kernel}, false), bias = value_of({v.out}, false), dy = y;
  draw(x, seed, mask.is_empty);
  draw(dy, seed + 1, of_y);
  draw(w, seed + 2);
  draw(bias, seed + 3);
  const Value x_mask = mask_of(x, mask.is_empty), y_mask = mask_of(y, of_y);
  struct Masked {
    Case of;
    const Value& mask;
    bool writes;
  };
  const std::vector<Masked> cases = {{{OpKind::conv2d, {x, w, bias}, {y}, {}}, y_mask, true},
                                     {{OpKind::conv2d_bwd_data, {dy, w}, {x}, {}}, x_mask, true},
                                     {{OpKind::conv2d_bwd_weights, {x, dy}, {w}, {}}, y_mask, false}};
  for (Masked c : cases)
    for (const uint32_t way : {DIRECT, WINOGRAD}) {
      if (way == WINOGRAD && (v.kernel != 3 || v.stride != 1)) continue;
      c.of.attrs = attrs_of(c.of.kind, v);
      for (const int threads : {1, 3}) {
        cpu::set_threads(threads);
        const Ran all = run(cpu::kernel, c.of, {.way = way, .seeks = true, .bf16 = bf16});
        const Ran left = run(cpu::kernel, c.of, {.way = way, .seeks = true, .mask = &c.mask, .bf16 = bf16});
        CHECK(is_equal(left, all, c.writes ? &c.mask : nullptr));
        if (!mask.has_zeros) CHECK(left.skipped == 0);
        if (std::count(c.mask.numbers.begin(), c.mask.numbers.end(), 0.0f) == std::ssize(c.mask.numbers)) CHECK(left.skipped == 1);
      }
    }
}

/// Norms, rectifiers, sums and products with the mask. They leave pixels out, fill them, or have 0 there in place.
void leave_out_of_others(int64_t channels, int64_t rows, int64_t columns, const Mask& mask, uint32_t seed, bool bf16) {
  Value x = value_of({2, channels, rows, columns}, true);
  Value dense = x, beside = x, stats = value_of({4, channels}, false), gamma = value_of({channels}, false), beta = gamma;
  draw(x, seed, mask.is_empty);
  draw(beside, seed + 1, mask.is_empty);
  draw(dense, seed + 2);
  draw(gamma, seed + 3);
  draw(beta, seed + 4);
  const Value inside = mask_of(x, mask.is_empty), y = x;
  const double count = double(2 * rows * columns);
  stats.numbers = run(cpu::kernel, {OpKind::bn_stats, {dense}, {stats}, {}}, {}).outs[0];
  Value variance = gamma;
  std::fill(variance.numbers.begin(), variance.numbers.end(), 0.5f);
  struct Masked {
    Case of;
    bool writes;
    int in_place = -1;  // this input is 0 outside, and may be the output
  };
  const std::vector<Masked> cases = {
      {{OpKind::relu, {x}, {y}, {0}}, true, 0},
      {{OpKind::relu_bwd, {dense, x}, {y}, {0.5}}, true, 1},
      {{OpKind::add, {x, beside}, {y}, {}}, true, 0},
      {{OpKind::add_relu, {x, beside}, {y}, {0}}, true, 0},
      {{OpKind::grad_sum, {x, beside}, {y}, {}}, true, 0},
      {{OpKind::multiply, {dense, inside}, {y}, {2}}, true},
      {{OpKind::copy, {x}, {y}, {}}, true},
      {{OpKind::max_pool, {dense}, {y}, {3, 3, 1, 1, 1, 1, 0}}, true},
      {{OpKind::multiply, {x, inside}, {y}, {2}}, true, 0},
      {{OpKind::bn_frozen, {dense, beta, variance, gamma, beta}, {y}, {1e-5}}, true},
      {{OpKind::bn_apply, {x, stats, gamma, beta}, {y}, {1e-5, count}}, true},
      {{OpKind::bn_bwd_data, {dense, x, stats, gamma, gamma, beta}, {y}, {1e-5, count}}, true},
      {{OpKind::bn_bwd_reduce, {dense, x, stats}, {gamma, beta}, {1e-5, count}}, false},
      {{OpKind::bn_stats, {x}, {stats}, {}}, false},
  };
  for (const Masked& c : cases)
    for (const int threads : {1, 3}) {
      cpu::set_threads(threads);
      const Ran all = run(cpu::kernel, c.of, {.bf16 = bf16});
      CHECK(is_equal(run(cpu::kernel, c.of, {.mask = &inside, .bf16 = bf16}), all, c.writes ? &inside : nullptr));
      if (c.in_place < 0) continue;
      CHECK(is_equal(run(cpu::kernel, c.of, {.mask = &inside, .fills = false, .bf16 = bf16, .in_place = c.in_place}), all, &inside));
    }
}

void left_out() {
  std::mt19937 random(60);
  std::vector<bool> types{false};
  if (cpu::has_bf16()) types.push_back(true);
  for (const bool bf16 : types)
    for (Mask& mask : masks(random)) {
      const std::string name = std::string(mask.name) + (bf16 ? ", bf16" : "");
      test((name + ": convolutions leave out the pixels outside").c_str(), [&] {
        for (const Convolution& v : {Convolution{1, 16, 32, 24, 40, 3, 1, 1, 1}, Convolution{2, 16, 32, 17, 23, 3, 1, 1, 1},
                                     Convolution{1, 3, 64, 24, 40, 7, 2, 3, 1}, Convolution{1, 32, 64, 16, 24, 1, 2, 0, 1},
                                     Convolution{1, 16, 16, 24, 24, 3, 1, 3, 3}, Convolution{1, 176, 192, 16, 24, 3, 1, 1, 1}})
          leave_out_of_convolutions(v, mask, uint32_t(random()), bf16);
      });
      test((name + ": other kernels leave out the pixels outside").c_str(), [&] {
        leave_out_of_others(32, 24, 40, mask, uint32_t(random()), bf16);
        leave_out_of_others(5, 17, 23, mask, uint32_t(random()), bf16);
      });
    }
}

void all_masks() {
  std::mt19937 random(59);
  const std::vector<Convolution> convolutions = {
      {1, 16, 32, 24, 40, 3, 1, 1, 1}, {1, 3, 64, 24, 40, 7, 2, 3, 1},  {2, 16, 32, 17, 24, 3, 2, 1, 1},  {1, 32, 64, 16, 24, 1, 2, 0, 1},
      {1, 20, 36, 16, 24, 3, 2, 1, 1}, {1, 16, 16, 24, 24, 3, 1, 3, 3}, {1, 16, 33, 17, 150, 5, 3, 2, 1}, {1, 176, 192, 16, 24, 3, 1, 1, 1},
  };
  for (const Convolution& v : convolutions)
    for (const Mask& mask : masks(random)) {
      char name[128];
      std::snprintf(name, sizeof name, "%s: %ld to %ld channels, %ld x %ld, kernel %ld, stride %ld, dilation %ld", mask.name, long(v.in),
                    long(v.out), long(v.rows), long(v.columns), long(v.kernel), long(v.stride), long(v.dilation));
      test(name, [&] { compare(v, mask, uint32_t(random())); });
    }
  // More tiles than are searched at once.
  test("many tiles", [&] { compare({1, 16, 16, 264, 264, 3, 1, 1, 1}, masks(random).back(), uint32_t(random())); });
}

#endif

}  // namespace

int main() {
#ifdef SPILLWAY_WITH_CPU
  all_masks();
  left_out();
#else
  test("without the cpu device nothing is checked", [] {});
#endif
  return finish();
}
