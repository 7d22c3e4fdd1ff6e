// cuDNN pads alike on both sides: where a tile's padding differs (or its view holds more than the windows read), x is cut out
// of its view into the workspace, zeros included. Weights go to channels-last there too, and to the 16-bit type of activations, unless they
// come laid out. Worked example: the top band of a 3x3 convolution has one row of padding above and none below: its x is copied with that
// row of zeros, and padding is 0.
#include "cuda/conv2d.hpp"

#include <algorithm>
#include <optional>

#include "cuda/conv2d_engines.hpp"
#include "cuda/own_kernels.hpp"
#include "ops/convtranspose2d.hpp"

namespace spillway::cuda {
namespace {

using ops::WindowAxis;
constexpr int64_t ALIGN = 256;
constexpr int64_t aligned(int64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/// The operands of one call for cuDNN, and their layout: views are the call's. The windows slide over x; y has a pixel for each
/// window.
struct Shaped {
  Problem problem;
  std::optional<Grid> cut;  // of x
  const View *x, *w, *y;
  const View* bias = nullptr;  // added to what the call makes
  const View *db = nullptr, *dy = nullptr;
};

/// Rows of zeros before the view that the first window covers; negative where the view begins earlier.
int64_t rows_before(const WindowAxis& a) { return a.in_lo - a.start(a.out_lo); }

/// Returns true if equal padding on both sides gives exactly these windows.
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
    s.x = &x;
    s.w = &w;
    s.y = &y;
  };
  switch (OpKind(c.kind)) {
    case OpKind::conv2d:
    case OpKind::conv2d_relu:
      set(Direction::forward, c.ins[0], c.ins[1], out);
      s.bias = bias;
      break;
    case OpKind::conv2d_bwd_data:
      set(Direction::backward_data, out, c.ins[1], c.ins[0]);
      break;
    case OpKind::conv2d_bwd_weights:
      set(Direction::backward_weights, c.ins[0], out, c.ins[1]);
      break;
    case OpKind::conv_transpose2d:
      set(Direction::backward_data, out, c.ins[1], c.ins[0]);
      s.bias = bias;
      break;
    case OpKind::conv_transpose2d_bwd_data:
      set(Direction::forward, c.ins[0], c.ins[1], out);
      break;
    default:
      set(Direction::backward_weights, c.ins[1], out, c.ins[0]);
      break;
  }
  if (s.problem.direction == Direction::backward_weights) {
    s.db = db;
    s.dy = &c.ins[1];
  }
  return s;
}

bool is_transposed(uint32_t kind) {
  return OpKind(kind) == OpKind::conv_transpose2d || OpKind(kind) == OpKind::conv_transpose2d_bwd_data ||
         OpKind(kind) == OpKind::conv_transpose2d_bwd_weights;
}

/// A whole value begins where the plan put it; a slice begins at one of its pixels.
int64_t alignment(const View& v) {
  const bool whole = std::equal(v.dims, v.dims + 4, v.extent);
  return whole ? 16 : row_alignment(v.dtype, v.dims[1]);
}

/// The operations that a library may fuse after the results; the bias of a transposed convolution is
/// added separately.
Epilogue epilogue_of(const KernelCall& c, const Shaped& s) {
  const bool rectified = OpKind(c.kind) == OpKind::conv2d_relu;
  return {s.bias && s.problem.direction == Direction::forward, rectified, rectified ? Conv2dReluAttrs::read(c.attrs).slope : 0};
}

Shaped shaped(const KernelCall& c, Precision precision) {
  Shaped s = roles_of(c);
  const ops::Conv2d g = is_transposed(c.kind) ? ops::conv_transpose2d_geometry(ConvTranspose2dAttrs::read(c.attrs), *s.y, *s.x, *s.w)
                                              : ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), *s.x, *s.y, *s.w);
  const auto& [h, w] = g.window;
  const Factors factors = factors_of(c, precision);
  s.problem = {s.problem.direction,
               factors,
               {g.batch, g.in_channels, h.in_size, w.in_size},
               {g.out_channels, g.group_in(), h.kernel, w.kernel},
               {g.batch, g.out_channels, h.out_size, w.out_size},
               h.stride,
               w.stride,
               rows_before(h),
               rows_before(w),
               h.dilation,
               w.dilation,
               alignment(*s.x),
               alignment(*s.y),
               epilogue_of(c, s)};
  if (symmetric(h) && symmetric(w)) return s;
  s.cut = Grid{-rows_before(h), (h.out_size - 1) * h.stride + h.reach(), -rows_before(w), (w.out_size - 1) * w.stride + w.reach()};
  s.problem.x[2] = s.cut->rows;
  s.problem.x[3] = s.cut->columns;
  s.problem.pad_h = s.problem.pad_w = 0;
  s.problem.align_x = 16;
  return s;
}

/// Returns true if x with its padding would be mostly zeros (a wide dilation that meets almost nothing), or larger than a kernel takes.
/// Then no library is asked, even if it pads by itself: engines of cuDNN 9.14 count such places in 32 bits, and read out of bounds.
bool padded_is_too_much(const Shaped& s) {
  constexpr int64_t MORE = 8, WORTH_ELEMENTS = int64_t(1) << 24;
  const Problem& p = s.problem;
  const int64_t rows = p.x[2] + 2 * p.pad_h, columns = p.x[3] + 2 * p.pad_w, pixels = p.x[0] * p.x[1];
  if (rows > (MOST_ELEMENTS - 1) / columns / pixels) return true;
  return s.cut && pixels * rows * columns > WORTH_ELEMENTS && rows * columns > MORE * s.x->dims[2] * s.x->dims[3];
}

Result<ConvolutionWay> way_of(const Shaped& s, uint32_t number) {
  if (!padded_is_too_much(s)) return convolution_way(s.problem, rank_of(number));
  return number == 0 ? Result<ConvolutionWay>(ConvolutionWay{}) : Result<ConvolutionWay>(refuse("cuDNN is not used for this convolution"));
}

int64_t bytes_of(const Sizes& s, DType stored) { return s[0] * s[1] * s[2] * s[3] * int64_t(dtype_bytes(stored)); }

/// As a library takes weights, and leaves their gradient.
DType stored_w(const Shaped& s) { return stored_type(s.problem.factors); }

/// Floats with a 1x1 window look the same either way; those that come laid out are as cuDNN takes them.
bool rewrites_weights(const Shaped& s) {
  const Sizes& w = s.problem.w;
  return !ops::comes_laid(*s.w) && (is_half(s.problem.factors) || (w[2] * w[3] > 1 && w[1] > 1));
}

/// A fused bias is taken in the stored type.
bool rewrites_bias(const Shaped& s, const ConvolutionWay& way) { return way.fused && s.bias && is_half(s.problem.factors); }

/// Places in the workspace, whose start is rounded up to ALIGN: x cut out, weights and a bias as cuDNN takes them, cuDNN's own scratch (or
/// the sums of a bias, before it is needed).
struct Layout {
  int64_t cut, weights, bias, scratch, bytes;
};

Layout layout(const Shaped& s, const ConvolutionWay& way) {
  const int64_t cut = s.cut ? aligned(bytes_of(s.problem.x, s.x->dtype)) : 0,
                weights = rewrites_weights(s) ? aligned(bytes_of(s.problem.w, stored_w(s))) : 0;
  const int64_t bias = rewrites_bias(s, way) ? aligned(s.bias->dims[0] * int64_t(dtype_bytes(stored_w(s)))) : 0,
                before = cut + weights + bias;
  const int64_t scratch = std::max(way.plan->workspace_bytes, s.db ? bias_gradient_workspace(*s.dy) : 0);
  return {0, cut, cut + weights, before, before + scratch + (before + scratch > 0 ? ALIGN : 0)};
}

class Convolution final : public Ready {
 public:
  Convolution(const KernelCall& c, const ConvolutionWay& way, Precision precision)
      : Ready(c), shaped_(shaped(call(), precision)), way_(way), at_(layout(shaped_, way)) {}
  int64_t workspace_bytes() const override { return at_.bytes; }
  Status run(const Context& context) const override {
    const cudaStream_t stream = context.stream(Lane::compute);
    const Shaped& s = shaped_;
    const Direction d = s.problem.direction;
    const Epilogue& e = s.problem.epilogue;
    std::byte* const space = reinterpret_cast<std::byte*>(aligned(int64_t(reinterpret_cast<uintptr_t>(call().workspace))));
    void* const x = s.cut ? space + at_.cut : s.x->data;
    void* const w = rewrites_weights(s) ? space + at_.weights : s.w->data;
    const bool writes_x = d == Direction::backward_data, writes_w = d == Direction::backward_weights;
    if (s.cut && !writes_x) SPILLWAY_TRY(gather_grid(*s.x, *s.cut, x, stream));
    if (w != s.w->data && !writes_w) SPILLWAY_TRY(weights_to_channels_last(*s.w, stored_w(s), w, stream));
    std::vector<Bound> tensors{{X, x}, {W, w}, {Y, s.y->data}};
    void* const bias = rewrites_bias(s, way_) ? space + at_.bias : s.bias ? s.bias->data : nullptr;
    if (rewrites_bias(s, way_)) SPILLWAY_TRY(weights_to_channels_last(*s.bias, stored_w(s), bias, stream));
    if (way_.fused && s.bias) tensors.push_back({BIAS, bias});
    SPILLWAY_TRY(execute(*way_.plan, tensors, space + at_.scratch, stream));
    if (s.cut && writes_x) SPILLWAY_TRY(scatter_grid(*s.x, *s.cut, x, stream));
    if (w != s.w->data && writes_w) SPILLWAY_TRY(weights_from_channels_last(*s.w, stored_w(s), w, stream));
    if (s.db) SPILLWAY_TRY(sum_bias_gradient(*s.dy, *s.db, space + at_.scratch, context));
    if (way_.fused || !(s.bias || e.rectified)) return {};
    return finish_pixels(call().outs[0], s.bias, e.rectified ? float(e.slope) : 1, stream);
  }

 private:
  const Shaped shaped_;
  const ConvolutionWay way_;
  const Layout at_;
};

}  // namespace

Result<std::vector<Way>> convolution_ways(const KernelCall& call, Precision precision, uint32_t most) {
  const Shaped s = shaped(call, precision);
  const Result<ConvolutionWay> first = way_of(s, 0);
  if (!first.ok()) return first.status();
  if (!first.value().plan) return std::vector{Way{0, true, uint64_t(own_functions(call.kind)->workspace(call)), "own"}};
  return library_ways(most, "cuDNN", [&](uint32_t number) -> Result<LibraryWay> {
    const Result<ConvolutionWay> way = way_of(s, number);
    return way.ok() ? Result<LibraryWay>({layout(s, way.value()).bytes, way.value().plan->engine}) : Result<LibraryWay>(way.status());
  });
}

Result<std::unique_ptr<Ready>> ready_convolution(const KernelCall& call, Precision precision) {
  const Result<ConvolutionWay> way = way_of(shaped(call, precision), call.way);
  if (!way.ok()) return way.status();
  if (!way.value().plan) return ready_own(call);
  return std::unique_ptr<Ready>(std::make_unique<Convolution>(call, way.value(), precision));
}

}  // namespace spillway::cuda
