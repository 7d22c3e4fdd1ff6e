// The graph of a convolution: the convolution alone, or with an added bias and a rectifier, with virtual results between. Some
// engines of the fused graph follow the first of the plain one, up to a limit. Both are to be measured, and a planner asks for every
// shape of a tile, so questions must be cheap (a fused engine is compiled). Worked example: fused engines F G H, plain engines P Q
// R: the choices are P F G Q R.
#include "cuda/conv2d_engines.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

namespace spillway::cuda {
namespace {

/// An engine with more scratch than this, and than a copy of the convolution's operands, is too greedy: another one is taken. In fp32 the
/// engines of an H100 transpose their operands to channels first there; the one that does not takes forty times as long.
constexpr int64_t ALWAYS_ALLOWED = int64_t(512) << 20;
constexpr uint32_t MOST_FUSED = 2;
constexpr int64_t WHOLE_ALIGN = 16;
/// Between the operations of a graph.
enum Virtual : int64_t { CONVOLVED = 101, BIASED = 102 };

Result<Descriptor> tensor(int64_t id, const Sizes& s, int64_t alignment, DType stored) {
  return Descriptor::make(CUDNN_BACKEND_TENSOR_DESCRIPTOR, [&](Descriptor& d) {
    const cudnnDataType_t type = stored == DType::bf16 ? CUDNN_DATA_BFLOAT16 : stored == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    const bool is_virtual = id >= CONVOLVED;
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, {s[0], s[1], s[2], s[3]})
        .set(CUDNN_ATTR_TENSOR_STRIDES, {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]})
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (is_virtual) d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  });
}

Result<Descriptor> convolution(const Problem& p) {
  return Descriptor::make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, [&](Descriptor& d) {
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
  });
}

/// The attribute names of one direction.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

constexpr Names NAMES[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

Result<Descriptor> convolve_operation(const Problem& p, const Descriptor& x, const Descriptor& w, const Descriptor& y) {
  const Result<Descriptor> conv = convolution(p);
  if (!conv.ok()) return conv.status();
  const Names& names = NAMES[size_t(p.direction)];
  return Descriptor::make(names.operation, [&](Descriptor& d) {
    const float one = 1, zero = 0;
    d.set(names.x, x)
        .set(names.w, w)
        .set(names.y, y)
        .set(names.convolution, conv.value())
        .set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one)
        .set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  });
}

/// y = mode(x), or mode(x, b).
Result<Descriptor> pointwise_operation(cudnnPointwiseMode_t mode, double slope, const Descriptor& x, const Descriptor* b,
                                       const Descriptor& y) {
  const Result<Descriptor> pointwise = Descriptor::make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, [&](Descriptor& d) {
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    d.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (mode == CUDNN_POINTWISE_RELU_FWD && slope != 0) d.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1, &slope);
  });
  if (!pointwise.ok()) return pointwise.status();
  return Descriptor::make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, [&](Descriptor& d) {
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise.value()).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  });
}

/// Appends to a graph; keeps the first failure.
struct Graph {
  std::vector<Descriptor> operations;
  Status status;
  void add(Result<Descriptor> operation) {
    if (!operation.ok())
      status = status.ok() ? operation.status() : status;
    else
      operations.push_back(std::move(operation).value());
  }
};

/// The operations in order; each reads the result of the one before it.
Graph graph_of(const Problem& p) {
  const Epilogue& e = p.epilogue;
  const DType stored = stored_type(p.factors);
  const auto result = [&](bool last, int64_t id) {
    return last ? tensor(Y, p.y, p.align_y, stored) : tensor(id, p.y, p.align_y, DType::f32);
  };
  const Result<Descriptor> x = tensor(X, p.x, p.align_x, stored), w = tensor(W, p.w, WHOLE_ALIGN, stored),
                           bias = tensor(BIAS, {1, p.y[1], 1, 1}, WHOLE_ALIGN, stored);
  const Result<Descriptor> convolved = result(!e.any(), CONVOLVED), biased = result(!e.rectified, BIASED), rectified = result(true, Y);
  Graph g;
  for (const auto* d : {&x, &w, &bias, &convolved, &biased, &rectified})
    if (!d->ok()) return {{}, d->status()};
  g.add(convolve_operation(p, x.value(), w.value(), convolved.value()));
  const Descriptor* last = &convolved.value();
  if (e.bias) {
    g.add(pointwise_operation(CUDNN_POINTWISE_ADD, 0, *last, &bias.value(), biased.value()));
    last = &biased.value();
  }
  if (e.rectified) g.add(pointwise_operation(CUDNN_POINTWISE_RELU_FWD, e.slope, *last, nullptr, rectified.value()));
  return g;
}

EngineLimits limits_of(const Problem& p) {
  const auto elements = [](const Sizes& s) { return s[0] * s[1] * s[2] * s[3]; };
  const int64_t bytes = (elements(p.x) + elements(p.y) + elements(p.w)) * int64_t(dtype_bytes(stored_type(p.factors)));
  return {p.factors != Factors::full, std::max(ALWAYS_ALLOWED, bytes + bytes / 4)};
}

/// Null: cuDNN says that it has no engine. Other failures are asked again next time.
Result<Engines*> engines_of(const Problem& p) {
  static auto& known = *new std::map<Problem, std::optional<Engines>>;  // the libraries may be gone before statics are
  const auto found = known.find(p);
  if (found != known.end()) return found->second ? &*found->second : nullptr;
  Graph graph = graph_of(p);
  Result<Engines> made = graph.status.ok() ? Engines::of(std::move(graph.operations), limits_of(p)) : Result<Engines>(graph.status);
  if (!made.ok() && made.status().code != Code::illegal) return within(made.status(), "cuDNN cannot describe this convolution: ");
  std::optional<Engines>& engines = known[p];
  if (made.ok()) engines.emplace(std::move(made).value());
  return engines ? &*engines : nullptr;
}

/// For a problem that may have no engine at all: null.
Result<const ExecutionPlan*> plan_of(const Problem& p, const Rank& choice) {
  const Result<Engines*> engines = engines_of(p);
  if (!engines.ok()) return engines.status();
  return engines.value() ? engines.value()->nth(choice) : Result<const ExecutionPlan*>(static_cast<const ExecutionPlan*>(nullptr));
}

}  // namespace

Result<ConvolutionWay> convolution_way(const Problem& p, const Rank& choice) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const auto handle = cudnn_handle(); !handle.ok()) return handle.status();
  uint32_t fused = 0;
  for (; choice.rank > 0 && p.epilogue.any() && fused < MOST_FUSED; fused++) {
    const Result<const ExecutionPlan*> plan = plan_of(p, {fused, choice.loose});
    if (!plan.ok()) return plan.status();
    if (!plan.value()) break;
    if (fused + 1 == choice.rank) return ConvolutionWay{plan.value(), true};
  }
  Problem plain = p;
  plain.epilogue = {};
  const Result<const ExecutionPlan*> plan = plan_of(plain, {choice.rank - fused, choice.loose});
  if (!plan.ok()) return plan.status();
  if (!plan.value() && (choice.rank > 0 || choice.loose)) return refuse("cuDNN has no engine of this number for this convolution");
  return ConvolutionWay{plan.value(), false};
}

}  // namespace spillway::cuda
