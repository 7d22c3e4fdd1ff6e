// Describes convolutions to oneDNN, compiles and shares them. Packs and unpacks operands that its primitives cannot read
// in place.
#include "cpu/convolution.hpp"

#include <algorithm>
#include <cstring>

namespace spillway::cpu {
namespace {

using dnnl::memory;
using tag = memory::format_tag;
using ops::Window;
using ops::WindowAxis;

/// The convolution as the primitive sees it, and the packed grid that stands for x where x itself will not do.
struct Problem {
  Direction direction;
  bool bias;
  Activations activations;
  memory::dims src, weights, dst, strides, dilations, pad_before, pad_after;
  std::optional<Grid> packed;
  bool turned = false;  // src and dst have changed places

  bool bf16() const { return activations != Activations::floats; }
  bool bf16_result() const { return activations == Activations::bf16; }
};

int64_t padding_after(const WindowAxis& axis, int64_t in_size, int64_t pad_before) {
  return std::max<int64_t>(0, (axis.out_size - 1) * axis.stride + axis.reach() - in_size - pad_before);
}

/// oneDNN 2.6 corrupts the heap in channels-last strided 1x1 weight gradients with few input channels.
bool strided_pointwise_weights(Direction direction, const Window& w) {
  return direction == Direction::backward_weights && w.h.kernel == 1 && w.w.kernel == 1 && (w.h.stride > 1 || w.w.stride > 1);
}

/// The weight gradient of a 1x1 convolution is a product of two activations, and as good the other way round. From few channels to
/// many, oneDNN's is slower than from many to few.
constexpr int64_t few_channels = 128;
bool better_turned(const Problem& p) {
  const auto all = [](const memory::dims& dims, int64_t n) { return std::ranges::all_of(dims, [n](int64_t d) { return d == n; }); };
  return p.direction == Direction::backward_weights && !p.bias && p.weights.size() == 4 && p.weights[2] * p.weights[3] == 1 &&
         all(p.strides, 1) && all(p.pad_before, 0) && all(p.pad_after, 0) && p.src[1] <= few_channels && p.src[1] < p.dst[1];
}

/// Returns true if some row (axis 0) or column (axis 1) of the result reads only padding.
bool looks_past(const Problem& p, size_t axis) {
  const int64_t size = p.src[2 + axis], taps = p.weights[p.weights.size() - 2 + axis], step = p.dilations[axis] + 1;
  for (int64_t out = 0; out < p.dst[2 + axis]; out++) {
    const int64_t start = out * p.strides[axis] - p.pad_before[axis], skipped = start < 0 ? (-start + step - 1) / step : 0;
    if (skipped >= taps || start + skipped * step >= size) return true;
  }
  return false;
}

/// Implementations of oneDNN that give wrong numbers in bf16:
/// - the tiles of AMX, if a row or column of the result reads only padding: they return old contents, or read out of bounds (2.6);
/// - in version 2, 1x1 convolutions over an odd number of channels, at 30, 59, 60 and many other numbers of pixels;
/// - dilated weight gradients of images from 29 pixels wide with fewer than sixteen last input channels: they read scratch that was never
/// written (2.6, 3.2 and 3.7); also by the tiles of AMX (2.6).
bool gives_wrong_numbers(const Problem& p, const std::string& implementation) {
  if (!p.bf16()) return false;
  const int64_t groups = p.weights.size() == 5 ? p.weights[0] : 1, in = p.src[1] / groups, out = p.dst[1] / groups;
  if (p.direction == Direction::backward_weights) {
    const bool dilated = std::ranges::any_of(p.dilations, [](int64_t d) { return d > 0; });
    return dilated && in % 16 != 0 && (contains(implementation, "jit_bf16:") || contains(implementation, "amx_bf16"));
  }
  if (contains(implementation, "brgconv:avx512_core_amx") && (looks_past(p, 0) || looks_past(p, 1))) return true;
  const int64_t summed = p.direction == Direction::forward ? in : out;
  return dnnl_version()->major < 3 && summed % 2 != 0 && contains(implementation, "jit_bf16_1x1");
}

Problem problem_of(Direction direction, const ops::Conv2d& g, bool bias, Activations activations) {
  const auto& [h, w] = g.window;
  Problem p{direction,
            bias,
            activations,
            {},
            {},
            {g.batch, g.out_channels, h.out_size, w.out_size},
            {h.stride, w.stride},
            {h.dilation - 1, w.dilation - 1},
            {h.pad_before(), w.pad_before()},
            {},
            std::nullopt};
  GridAxis rows{0, h.in_size, 1}, columns{0, w.in_size, 1};
  if (strided_pointwise_weights(direction, g.window)) {
    rows = {h.start(h.out_lo) - h.in_lo, h.out_size, h.stride};
    columns = {w.start(w.out_lo) - w.in_lo, w.out_size, w.stride};
    p.packed = {rows, columns};
    p.strides = {1, 1};
    p.pad_before = p.pad_after = {0, 0};
  } else {
    if (!g.window.exact()) {
      rows = {h.core_lo() - h.in_lo, h.core_size(), 1};
      columns = {w.core_lo() - w.in_lo, w.core_size(), 1};
      p.packed = {rows, columns};
    }
    p.pad_after = {padding_after(h, rows.count, p.pad_before[0]), padding_after(w, columns.count, p.pad_before[1])};
  }
  p.src = {g.batch, g.in_channels, rows.count, columns.count};
  p.weights = {g.groups, g.group_out(), g.group_in(), h.kernel, w.kernel};
  if (g.groups == 1) p.weights.erase(p.weights.begin());
  if (better_turned(p)) {
    p.turned = true;
    std::swap(p.src, p.dst);
    std::swap(p.weights[0], p.weights[1]);
  }
  return p;
}

/// oneDNN's descriptions of one problem, with activations in the format `layout`.
class Describe {
 public:
  Describe(const Problem& p, tag layout)
      : p_(p),
        src(factor_desc(p.bf16(), p.src, layout)),
        written_src(factor_desc(p.bf16_result(), p.src, layout)),
        weights(factor_desc(p.bf16(), p.weights, tag::any)),
        weights_gradient(f32_desc(p.weights, tag::any)),
        dst(factor_desc(p.bf16(), p.dst, layout)),
        written_dst(factor_desc(p.bf16_result(), p.dst, layout)),
        bias(f32_desc({p.dst[1]}, tag::x)) {}

  std::optional<Compiled> compiled() const {
    switch (p_.direction) {
      case Direction::forward:
        return forward();
      case Direction::backward_data:
        return backward_data();
      case Direction::backward_weights:
        return backward_weights();
    }
    return std::nullopt;
  }

 private:
  static constexpr auto direct = dnnl::algorithm::convolution_direct;

  /// Calls use(operands of the forward primitive), or of the weight gradient. `bias` is among them if there is one.
  template <class Use, class... Before>
  auto with_arguments(const Use& use, const memory::desc& result, const memory::desc& w, const Before&... before) const {
    const auto with = [&](const auto&... bias_if_any) {
      return use(std::tie(before..., direct, src, w, bias_if_any..., result, p_.strides, p_.dilations, p_.pad_before, p_.pad_after));
    };
    return p_.bias ? with(bias) : with();
  }
  template <class Use>
  auto with_forward(const memory::desc& result, const Use& use) const {
    return with_arguments(use, result, weights, dnnl::prop_kind::forward_training);
  }

  Argument src_argument(const memory::desc& wanted, bool written) const {
    return {written ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, factor_desc(written ? p_.bf16_result() : p_.bf16(), p_.src, tag::nhwc), wanted,
            written};
  }
  Argument weights_argument(const memory::desc& wanted, bool written) const {
    const tag ours = p_.weights.size() == 5 ? tag::goihw : p_.turned ? tag::iohw : tag::oihw;
    return {written ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, f32_desc(p_.weights, ours), wanted, written};
  }
  Argument dst_argument(const memory::desc& wanted, bool written) const {
    return {written ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, factor_desc(written ? p_.bf16_result() : p_.bf16(), p_.dst, tag::nhwc), wanted,
            written};
  }

  auto trusts() const {
    return [this](const std::string& implementation) { return !gives_wrong_numbers(p_, implementation); };
  }

  template <class Primitive, class PrimitiveDesc>
  static Compiled compile(const PrimitiveDesc& found, const std::vector<Argument>& arguments) {
    return {[found] { return Primitive(found); }, found.scratchpad_desc(), arguments};
  }

  std::optional<Compiled> forward() const {
    using Forward = dnnl::convolution_forward;
    const auto found =
        with_forward(written_dst, [this](const auto& arguments) { return fast_implementation<Forward>(trusts(), arguments); });
    if (!found) return std::nullopt;
    std::vector<Argument> arguments{src_argument(found->src_desc(), false), weights_argument(found->weights_desc(), false),
                                    dst_argument(found->dst_desc(), true)};
    if (p_.bias) arguments.push_back({DNNL_ARG_BIAS, bias, bias, false});
    return compile<Forward>(*found, arguments);
  }

  /// The forward description of a gradient's primitive.
  auto hint() const {
    return with_forward(dst, [](const auto& arguments) {
      return with_description<dnnl::convolution_forward>([](const auto& description) { return description; }, arguments);
    });
  }

  std::optional<Compiled> backward_data() const {
    using Gradient = dnnl::convolution_backward_data;
    const auto arguments = std::tie(direct, written_src, weights, dst, p_.strides, p_.dilations, p_.pad_before, p_.pad_after);
    const auto found = fast_implementation<Gradient>(trusts(), arguments, hint());
    if (!found) return std::nullopt;
    return compile<Gradient>(*found, {dst_argument(found->diff_dst_desc(), false), weights_argument(found->weights_desc(), false),
                                      src_argument(found->diff_src_desc(), true)});
  }

  std::optional<Compiled> backward_weights() const {
    using Gradient = dnnl::convolution_backward_weights;
    const auto fast = [this](const auto& arguments) { return fast_implementation<Gradient>(trusts(), arguments, hint()); };
    const auto found = with_arguments(fast, dst, weights_gradient);
    if (!found) return std::nullopt;
    std::vector<Argument> arguments{src_argument(found->src_desc(), false), dst_argument(found->diff_dst_desc(), false),
                                    weights_argument(found->diff_weights_desc(), true)};
    if (p_.turned) std::swap(arguments[0], arguments[1]);
    if (p_.bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, bias, bias, true});
    return compile<Gradient>(*found, arguments);
  }

  const Problem& p_;
  memory::desc src, written_src, weights, weights_gradient, dst, written_dst, bias;
};

/// oneDNN's code grows with the padding: minutes and gigabytes for a billion pixels of it. No image has that number; a hostile plan runs on
/// the reference.
constexpr int64_t most_padding = 1 << 12;
bool padded_beyond_reason(const Problem& p) {
  const auto beyond = [](int64_t rows) { return rows > most_padding; };
  return std::ranges::any_of(p.pad_before, beyond) || std::ranges::any_of(p.pad_after, beyond);
}

Convolution compile(const Problem& p) {
  if (padded_beyond_reason(p)) return {};
  for (const tag layout : {tag::nhwc, tag::any})
    if (std::optional<Compiled> compiled = Describe(p, layout).compiled()) {
      WorkspaceLayout places;
      places.place(compiled->workspace_bytes());
      int64_t offset = 0;
      if (p.packed) offset = places.place(factor_desc(p.bf16(), p.turned ? p.dst : p.src, tag::nhwc));
      return {std::move(compiled), p.packed, offset, places.bytes()};
    }
  return {};
}

/// Calls f(packed pixel, pixel of x or null) for each pixel of the grid.
template <class T, class F>
void each_grid_pixel(const View& x, const Grid& grid, T* packed, F f) {
  const int64_t rows = x.dims[0] * grid.h.count;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < grid.w.count; column++) {
      const int64_t h = grid.h.first + row % grid.h.count * grid.h.step;
      const int64_t w = grid.w.first + column * grid.w.step;
      const bool held = h >= 0 && h < x.dims[2] && w >= 0 && w < x.dims[3];
      f(packed + (row * grid.w.count + column) * x.dims[1], held ? pixel_of<T>(x, row / grid.h.count, h, w) : nullptr);
    }
}

template <class T>
void pack(const View& x, const Grid& grid, T* packed) {
  const size_t bytes = size_t(x.dims[1]) * sizeof(T);
  each_grid_pixel(x, grid, packed, [bytes](T* to, const T* from) {
    if (from)
      std::memcpy(to, from, bytes);
    else
      std::memset(to, 0, bytes);
  });
}

/// Writes all of x: the grid's pixels, zero elsewhere.
template <class T>
void unpack(const View& x, const Grid& grid, T* packed) {
  each_run<1>({&x}, [](Pointers<1> at, int64_t n) { std::fill_n(at[0], n, 0.0f); });
  const size_t bytes = size_t(x.dims[1]) * sizeof(T);
  each_grid_pixel(x, grid, packed, [bytes](const T* from, T* to) {
    if (to) std::memcpy(to, from, bytes);
  });
}

}  // namespace

std::shared_ptr<const Convolution> convolution_of(Direction direction, const ops::Conv2d& g, bool bias, Activations activations) {
  static Shared<Convolution> known;
  Shared<Convolution>::Key key{int64_t(direction), bias,     int64_t(activations), g.batch, g.in_channels,
                               g.out_channels,     g.groups, use_threads()};
  for (const WindowAxis& a : {g.window.h, g.window.w})
    for (const int64_t n :
         {a.kernel, a.stride, a.dilation, a.in_size, a.out_size, a.start(a.out_lo) - a.in_lo, a.core_lo() - a.in_lo, a.core_size()})
      key.push_back(n);
  return known.get(key, [&] { return compile(problem_of(direction, g, bias, activations)); });
}

ReadyConvolution::ReadyConvolution(std::shared_ptr<const Convolution> made, const KernelCall& c) : made_(std::move(made)) {
  if (made_->compiled)
    bound_.emplace(*made_->compiled);
  else
    reference_ = ref::kernel(c.kind)->prepare(c).value();
}

void ReadyConvolution::run(const KernelCall& c, const View& src, bool writes_src, std::span<void*> data, size_t src_at) {
  if (reference_) return reference_->run(c);
  char* const workspace = static_cast<char*>(c.workspace);
  void* const packed = workspace + made_->packed_offset;
  if (made_->packed) {
    data[src_at] = packed;
    if (!writes_src) with_element(src, [&](auto element) { pack(src, *made_->packed, static_cast<decltype(element)*>(packed)); });
  }
  bound_->run(data, workspace);
  if (made_->packed && writes_src)
    with_element(src, [&](auto element) { unpack(src, *made_->packed, static_cast<decltype(element)*>(packed)); });
}

}  // namespace spillway::cpu
