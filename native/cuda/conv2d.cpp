// cuDNN pads alike on both sides: where a tile's padding differs (or its view holds more than the windows read), x is cut out
// of its view into the workspace, zeros included. Weights go to channels-last there too. Worked example: the top band of a
// 3x3 convolution has one row of padding above and none below: its x is copied with that row of zeros, and padding is 0.
#include "cuda/conv2d.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "cuda/backend.hpp"
#include "cuda/own_kernels.hpp"
#include "ops/convtranspose2d.hpp"

namespace spillway::cuda {
namespace {

using ops::WindowAxis;
using Sizes = std::array<int64_t, 4>;

enum class Direction { forward, backward_data, backward_weights };
enum Tensor : int64_t { X = 1, W = 2, Y = 3 };

/// Beyond this an engine is too greedy: another is taken.
constexpr int64_t MOST_WORKSPACE = int64_t(512) << 20;
constexpr int64_t ALIGN = 256;
constexpr int64_t aligned(int64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/// The convolution as cuDNN sees it: sizes B, C, H, W and O, C/groups, kH, kW.
struct Problem {
  Direction direction;
  Precision precision;
  Sizes x, w, y;
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t align_x, align_y;   // bytes that addresses are multiples of
  auto operator<=>(const Problem&) const = default;
};

/// What one call hands to cuDNN, and how it gets there. x is what the windows slide over, y has a pixel for each window.
struct Shaped {
  Problem problem;
  std::optional<Grid> cut;   // of x
  View x, w, y;
  const View* bias = nullptr;   // added to what the call makes
  const View *db = nullptr, *dy = nullptr;
};

/// Rows of zeros before the view that the first window covers; negative where the view begins earlier.
int64_t rows_before(const WindowAxis& a) { return a.in_lo - a.start(a.out_lo); }

/// Whether padding alike on both sides gives exactly these windows.
bool symmetric(const WindowAxis& a) {
  const int64_t pad = rows_before(a), room = a.in_size + 2 * pad - a.reach();
  return pad >= 0 && room >= 0 && room / a.stride + 1 == a.out_size;
}

/// The three views of a call as a convolution has them.
Shaped roles_of(const KernelCall& c) {
  Shaped s;
  const View& out = c.outs[0];
  const View* const bias = c.n_ins > 2 ? &c.ins[2] : nullptr;
  const View* const db = c.n_outs > 1 ? &c.outs[1] : nullptr;
  const auto set = [&](Direction d, const View& x, const View& w, const View& y) {
    s.problem.direction = d;
    s.x = x;
    s.w = w;
    s.y = y;
  };
  switch (OpKind(c.kind)) {
    case OpKind::conv2d: set(Direction::forward, c.ins[0], c.ins[1], out); s.bias = bias; break;
    case OpKind::conv2d_bwd_data: set(Direction::backward_data, out, c.ins[1], c.ins[0]); break;
    case OpKind::conv2d_bwd_weights: set(Direction::backward_weights, c.ins[0], out, c.ins[1]); break;
    case OpKind::conv_transpose2d: set(Direction::backward_data, out, c.ins[1], c.ins[0]); s.bias = bias; break;
    case OpKind::conv_transpose2d_bwd_data: set(Direction::forward, c.ins[0], c.ins[1], out); break;
    default: set(Direction::backward_weights, c.ins[1], out, c.ins[0]); break;
  }
  if (s.problem.direction == Direction::backward_weights) {
    s.db = db;
    s.dy = &c.ins[1];
  }
  return s;
}

bool is_transposed(uint32_t kind) {
  return OpKind(kind) == OpKind::conv_transpose2d || OpKind(kind) == OpKind::conv_transpose2d_bwd_data || OpKind(kind) == OpKind::conv_transpose2d_bwd_weights;
}

/// A whole value begins where the plan put it; a slice begins at one of its pixels.
int64_t alignment(const View& v) {
  const bool whole = std::equal(v.dims, v.dims + 4, v.extent);
  return whole || v.dims[1] % 4 == 0 ? 16 : int64_t(sizeof(float));
}

Shaped shaped(const KernelCall& c, Precision precision) {
  Shaped s = roles_of(c);
  const ops::Conv2d g = is_transposed(c.kind) ? ops::conv_transpose2d_geometry(ConvTranspose2dAttrs::read(c.attrs), s.y, s.x, s.w)
                                              : ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), s.x, s.y, s.w);
  const auto& [h, w] = g.window;
  s.problem = {s.problem.direction, precision, {g.batch, g.in_channels, h.in_size, w.in_size}, {g.out_channels, g.group_in(), h.kernel, w.kernel},
               {g.batch, g.out_channels, h.out_size, w.out_size}, h.stride, w.stride, rows_before(h), rows_before(w), h.dilation, w.dilation, alignment(s.x), alignment(s.y)};
  if (symmetric(h) && symmetric(w)) return s;
  s.cut = Grid{-rows_before(h), (h.out_size - 1) * h.stride + h.reach(), -rows_before(w), (w.out_size - 1) * w.stride + w.reach()};
  s.problem.x[2] = s.cut->rows;
  s.problem.x[3] = s.cut->columns;
  s.problem.pad_h = s.problem.pad_w = 0;
  s.problem.align_x = 16;
  return s;
}

int64_t bytes_of(const Sizes& s) { return s[0] * s[1] * s[2] * s[3] * int64_t(sizeof(float)); }

/// A 1x1 window looks the same either way.
bool reorders_weights(const Problem& p) { return p.w[2] * p.w[3] > 1 && p.w[1] > 1; }

// ---------------------------------------------------------------- descriptors

Result<Descriptor> tensor(Tensor id, const Sizes& s, int64_t alignment) {
  Result<Descriptor> made = Descriptor::create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  if (!made.ok()) return made;
  Descriptor d = std::move(made).value();
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const int64_t number = id;
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, {s[0], s[1], s[2], s[3]})
      .set(CUDNN_ATTR_TENSOR_STRIDES, {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]})
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  const Status s_final = d.finalize();
  return s_final.ok() ? Result<Descriptor>(std::move(d)) : Result<Descriptor>(s_final);
}

Result<Descriptor> convolution(const Problem& p) {
  Result<Descriptor> made = Descriptor::create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  if (!made.ok()) return made;
  Descriptor d = std::move(made).value();
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const int64_t dims = 2;
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {p.pad_h, p.pad_w})
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {p.pad_h, p.pad_w})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {p.dilation_h, p.dilation_w})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {p.stride_h, p.stride_w});
  const Status s = d.finalize();
  return s.ok() ? Result<Descriptor>(std::move(d)) : Result<Descriptor>(s);
}

/// The attribute names of one direction.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

constexpr Names NAMES[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

Result<std::unique_ptr<ExecutionPlan>> engine_for(const Problem& p) {
  const Names& names = NAMES[size_t(p.direction)];
  const Result<Descriptor> x = tensor(X, p.x, p.align_x), w = tensor(W, p.w, 16), y = tensor(Y, p.y, p.align_y), conv = convolution(p);
  for (const auto* d : {&x, &w, &y, &conv})
    if (!d->ok()) return d->status();
  Result<Descriptor> made = Descriptor::create(names.operation);
  if (!made.ok()) return made.status();
  Descriptor operation = std::move(made).value();
  const float one = 1, zero = 0;
  operation.set(names.x, x.value()).set(names.w, w.value()).set(names.y, y.value()).set(names.convolution, conv.value())
      .set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one).set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  if (Status s = operation.finalize(); !s.ok()) return s;
  return choose_engine(operation, p.precision, MOST_WORKSPACE);
}

/// Null: the device's own kernel runs.
Result<const ExecutionPlan*> plan_for(const Problem& p) {
  static std::mutex mutex;
  static std::map<Problem, std::unique_ptr<ExecutionPlan>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(p);
  if (found != known.end()) return found->second.get();
  if (const auto handle = cudnn_handle(); !handle.ok()) return handle.status();
  Result<std::unique_ptr<ExecutionPlan>> made = engine_for(p);
  // A problem that cuDNN does not describe is one that it has no engine for.
  return (known[p] = made.ok() ? std::move(made).value() : nullptr).get();
}

/// Places in the workspace, whose start is rounded up to ALIGN: x cut out, weights channels-last, cuDNN's own scratch (or the sums of a bias, before it is needed).
struct Layout { int64_t cut, weights, scratch, bytes; };

Layout layout(const Shaped& s, const ExecutionPlan& plan) {
  const int64_t cut = s.cut ? aligned(bytes_of(s.problem.x)) : 0, weights = reorders_weights(s.problem) ? aligned(bytes_of(s.problem.w)) : 0;
  const int64_t scratch = std::max(plan.workspace_bytes, s.db ? bias_gradient_workspace(*s.dy) : 0);
  return {0, cut, cut + weights, cut + weights + scratch + (cut + weights + scratch > 0 ? ALIGN : 0)};
}

Status run_with(const Shaped& s, const ExecutionPlan& plan, const KernelCall& call, cudaStream_t stream) {
  const Direction d = s.problem.direction;
  const Layout at = layout(s, plan);
  if (int64_t(call.workspace_bytes) < at.bytes) return refuse("the workspace is too small");
  std::byte* const space = reinterpret_cast<std::byte*>(aligned(int64_t(reinterpret_cast<uintptr_t>(call.workspace))));
  void* const x = s.cut ? space + at.cut : s.x.data;
  void* const w = reorders_weights(s.problem) ? space + at.weights : s.w.data;
  const bool writes_x = d == Direction::backward_data, writes_w = d == Direction::backward_weights;
  if (s.cut && !writes_x) SPILLWAY_TRY(gather_grid(s.x, *s.cut, x, stream));
  if (w != s.w.data && !writes_w) SPILLWAY_TRY(weights_to_channels_last(s.w, w, stream));
  SPILLWAY_TRY(execute(plan, {{X, x}, {W, w}, {Y, s.y.data}}, space + at.scratch, stream));
  if (s.cut && writes_x) SPILLWAY_TRY(scatter_grid(s.x, *s.cut, x, stream));
  if (w != s.w.data && writes_w) SPILLWAY_TRY(weights_from_channels_last(s.w, w, stream));
  if (s.db) SPILLWAY_TRY(sum_bias_gradient(*s.dy, *s.db, space + at.scratch, stream));
  return s.bias ? add_bias(call.outs[0], *s.bias, stream) : Status{};
}

}  // namespace

Result<int64_t> convolution_workspace(const KernelCall& call, Precision precision) {
  const Shaped s = shaped(call, precision);
  const Result<const ExecutionPlan*> plan = plan_for(s.problem);
  if (!plan.ok()) return plan.status();
  return plan.value() ? layout(s, *plan.value()).bytes : own_functions(call.kind)->workspace(call);
}

Status run_convolution(const KernelCall& call, const Context& context) {
  const Shaped s = shaped(call, context.precision());
  const Result<const ExecutionPlan*> plan = plan_for(s.problem);
  if (!plan.ok()) return plan.status();
  return plan.value() ? run_with(s, *plan.value(), call, context.stream(Lane::compute)) : run_own(call, context);
}

}  // namespace spillway::cuda
