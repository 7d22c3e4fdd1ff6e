// Convolutions that skip zeros: results and both gradients equal those of `ref`, whose kernels compute all pixels, within rounding. The
// bits are the same for one to four threads, and the reported share is 0 for an image without zeros.
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

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
};

Value value_of(std::vector<int64_t> dims, bool activation) {
  Value v;
  v.view.rank = uint32_t(dims.size());
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

/// `seeks`: the kernel looks for zeros.
Ran run(KernelTable table, OpKind kind, const Convolution& v, std::vector<Value> ins, std::vector<Value> outs, uint32_t way, bool seeks) {
  const double s = double(v.stride), p = double(v.pad), d = double(v.dilation);
  const std::vector<double> attrs =
      kind == OpKind::conv2d_relu ? std::vector<double>{s, s, p, p, p, p, d, d, 1, 0.25} : std::vector<double>{s, s, p, p, p, p, d, d, 1};
  Ran ran;
  StepContext step;
  step.skipped = seeks ? &ran.skipped : nullptr;
  std::vector<View> views;
  for (std::vector<Value>* side : {&ins, &outs})
    for (Value& value : *side) {
      views.push_back(value.view);
      views.back().data = value.numbers.data();
    }
  KernelCall call{.kind = uint32_t(kind),
                  .ins = views.data(),
                  .n_ins = uint32_t(ins.size()),
                  .outs = views.data() + ins.size(),
                  .n_outs = uint32_t(outs.size()),
                  .attrs = attrs.data(),
                  .n_attrs = uint32_t(attrs.size()),
                  .way = way,
                  .step = &step};
  auto made = table(call.kind)->prepare(call);
  if (!made.ok()) throw std::runtime_error(made.status().message);
  auto kernel = std::move(made).value();
  kernel->compile();
  void* const workspace = std::aligned_alloc(64, size_t(kernel->workspace_bytes() + 64 + 63) / 64 * 64);
  call.workspace = workspace;
  for (Value& value : outs) std::fill(value.numbers.begin(), value.numbers.end(), std::nanf(""));
  kernel->run(call);
  std::free(workspace);
  for (Value& value : outs) ran.outs.push_back(std::move(value.numbers));
  return ran;
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
  struct Case {
    OpKind kind;
    std::vector<Value> ins, outs;
  };
  const std::vector<Case> cases = {{OpKind::conv2d, {x, w}, {y}},
                                   {OpKind::conv2d, {x, w, bias}, {y}},
                                   {OpKind::conv2d_relu, {x, w, bias}, {y}},
                                   {OpKind::conv2d_bwd_data, {dy, w}, {x}},
                                   {OpKind::conv2d_bwd_weights, {x, dy}, {w}},
                                   {OpKind::conv2d_bwd_weights, {dense, dy}, {w, bias}}};
  for (const Case& c : cases) {
    const Ran expected = run(ref::kernel, c.kind, v, c.ins, c.outs, 0, false);
    for (const uint32_t way : {DIRECT, WINOGRAD}) {
      if (way == WINOGRAD && (v.kernel != 3 || v.stride != 1)) continue;
      std::vector<Ran> by_threads;
      for (const int threads : {1, 3}) {
        cpu::set_threads(threads);
        by_threads.push_back(run(cpu::kernel, c.kind, v, c.ins, c.outs, way, true));
        CHECK(is_near(by_threads.back().outs, expected.outs));
        CHECK(by_threads.back().skipped >= 0 && by_threads.back().skipped <= 1);
        // Pixels between strided windows are met by none.
        if (!mask.has_zeros && v.kernel >= v.stride) CHECK(by_threads.back().skipped == 0);
      }
      for (const Ran& ran : by_threads) {
        CHECK(ran.skipped == by_threads[0].skipped);
        for (size_t i = 0; i < ran.outs.size(); i++)
          CHECK(std::memcmp(ran.outs[i].data(), by_threads[0].outs[i].data(), ran.outs[i].size() * sizeof(float)) == 0);
      }
    }
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
#else
  test("without the cpu device nothing is checked", [] {});
#endif
  return finish();
}
