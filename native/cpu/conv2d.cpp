// Convolution and its gradients: directly on oneDNN or, for depthwise weight gradients, on own kernels; by Winograd's algorithm; tap by
// tap; or, if grouped, on own kernels.
#include <optional>

#include "cpu/conv2d_winograd.hpp"
#include "cpu/convolution.hpp"
#include "cpu/depthwise.hpp"
#include "cpu/grouped_weights.hpp"
#include "cpu/laid.hpp"
#include "cpu/live.hpp"
#include "cpu/rectify.hpp"
#include "cpu/taps.hpp"

namespace spillway::cpu {
namespace {

ops::Conv2d conv2d_of(const KernelCall& c, const View& x, const View& y, const View& w) {
  return ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), x, y, w);
}

struct Forward {
  static constexpr auto direction = Direction::forward;
  static ops::Conv2d geometry(const KernelCall& c) { return conv2d_of(c, c.ins[0], c.outs[0], c.ins[1]); }
  static auto of(const KernelCall& c) { return convolution_of(direction, geometry(c), c.n_ins > 2, activations_of(c)); }
  static void run(ReadyConvolution& convolution, const KernelCall& c) {
    void* data[] = {c.ins[0].data, c.ins[1].data, c.outs[0].data, c.n_ins > 2 ? c.ins[2].data : nullptr};
    convolution.run(c, c.ins[0], false, {data, c.n_ins + 1}, 0);
  }
  static double run_live(const ops::Conv2d& g, const KernelCall& c) { return live::forward(g, c); }
  static winograd::Geometry tiles(const KernelCall& c) { return conv2d_winograd::towards_y(geometry(c), c.ins[0], c.outs[0]); }
  static int64_t winograd_bytes(const KernelCall& c) { return winograd::convolve_bytes(tiles(c), use_threads()); }
  static void run_winograd(const winograd::Geometry& g, const KernelCall& c) { conv2d_winograd::forward(g, c); }
  static void run_taps(taps::Kernel& kernel, const KernelCall& c) { kernel.forward(c); }
  static grouped::Product grouped_of(const ops::Conv2d& g) { return grouped::Product(g, false); }
  static void run_grouped(const grouped::Product& product, const KernelCall& c) {
    product.run(c.ins[0], floats(c.ins[1]), c.n_ins > 2 ? floats(c.ins[2]) : nullptr, c.outs[0], c.workspace);
  }
};

/// Attributes begin with the convolution's own. oneDNN's rectifier would turn NaN into 0: ours runs behind it.
struct ForwardRelu : Forward {
  static float slope(const KernelCall& c) { return float(Conv2dReluAttrs::read(c.attrs).slope); }
  static void run(ReadyConvolution& convolution, const KernelCall& c) {
    Forward::run(convolution, c);
    if (convolution.is_compiled()) rectify(c.outs[0], slope(c));  // the reference, where it stands in, has done it
  }
  static double run_live(const ops::Conv2d& g, const KernelCall& c) {
    const double skipped = live::forward(g, c);
    rectify(c.outs[0], slope(c));
    return skipped;
  }
  static void run_winograd(const winograd::Geometry& g, const KernelCall& c) { conv2d_winograd::forward(g, c, {nullptr, true, slope(c)}); }
  static void run_taps(taps::Kernel& kernel, const KernelCall& c) {
    kernel.forward(c);
    rectify(c.outs[0], slope(c));
  }
  static void run_grouped(const grouped::Product& product, const KernelCall& c) {
    Forward::run_grouped(product, c);
    rectify(c.outs[0], slope(c));
  }
};

struct BackwardData {
  static constexpr auto direction = Direction::backward_data;
  static ops::Conv2d geometry(const KernelCall& c) { return conv2d_of(c, c.outs[0], c.ins[0], c.ins[1]); }
  static auto of(const KernelCall& c) { return convolution_of(direction, geometry(c), false, activations_of(c)); }
  static void run(ReadyConvolution& convolution, const KernelCall& c) {
    void* data[] = {c.ins[0].data, c.ins[1].data, c.outs[0].data};
    convolution.run(c, c.outs[0], true, data, 2);
  }
  static double run_live(const ops::Conv2d& g, const KernelCall& c) { return live::backward_data(g, c); }
  static winograd::Geometry tiles(const KernelCall& c) { return conv2d_winograd::towards_x(geometry(c), c.outs[0], c.ins[0]); }
  static int64_t winograd_bytes(const KernelCall& c) { return winograd::convolve_bytes(tiles(c), use_threads()); }
  static void run_winograd(const winograd::Geometry& g, const KernelCall& c) { conv2d_winograd::backward_data(g, c); }
  static void run_taps(taps::Kernel& kernel, const KernelCall& c) { kernel.backward_data(c); }
  static grouped::Product grouped_of(const ops::Conv2d& g) { return grouped::Product(g, true); }
  static void run_grouped(const grouped::Product& product, const KernelCall& c) {
    product.run(c.ins[0], floats(c.ins[1]), nullptr, c.outs[0], c.workspace);
  }
};

struct BackwardWeights {
  static constexpr auto direction = Direction::backward_weights;
  static ops::Conv2d geometry(const KernelCall& c) { return conv2d_of(c, c.ins[0], c.ins[1], c.outs[0]); }
  static auto of(const KernelCall& c) { return convolution_of(direction, geometry(c), c.n_outs > 1, activations_of(c)); }
  static void run(ReadyConvolution& convolution, const KernelCall& c) {
    void* data[] = {c.ins[0].data, c.ins[1].data, c.outs[0].data, c.n_outs > 1 ? c.outs[1].data : nullptr};
    convolution.run(c, c.ins[0], false, {data, c.n_outs + 2}, 0);
  }
  static double run_live(const ops::Conv2d& g, const KernelCall& c) { return live::backward_weights(g, c); }
  static winograd::Geometry tiles(const KernelCall& c) { return conv2d_winograd::towards_y(geometry(c), c.ins[0], c.ins[1]); }
  static int64_t winograd_bytes(const KernelCall& c) { return conv2d_winograd::backward_weights_bytes(tiles(c), c); }
  static void run_winograd(const winograd::Geometry& g, const KernelCall& c) { conv2d_winograd::backward_weights(g, c); }
  static void run_taps(taps::Kernel& kernel, const KernelCall& c) { kernel.backward_weights(c); }
  static grouped::WeightGradient grouped_of(const ops::Conv2d& g) { return grouped::WeightGradient(g); }
  static void run_grouped(const grouped::WeightGradient& gradient, const KernelCall& c) {
    gradient.run(c.ins[0], c.ins[1], floats(c.outs[0]), c.workspace);
    if (c.n_outs > 1) bias_gradient(c.ins[1], c.workspace, c.outs[1]);
  }
};

/// The weight gradient without another algorithm: of a depthwise convolution by own kernels.
class DirectWeights {
 public:
  explicit DirectWeights(const KernelCall& c) {
    const ops::Conv2d g = BackwardWeights::geometry(c);
    if (depthwise::applies(g))
      own_bytes_ = depthwise::workspace_bytes(g);
    else
      convolution_.emplace(c);
  }
  int64_t workspace_bytes() const { return convolution_ ? convolution_->workspace_bytes() : own_bytes_; }
  void compile() const {
    if (convolution_) convolution_->compile();
  }
  void run(const KernelCall& c) {
    if (convolution_)
      convolution_->run(c);
    else
      depthwise::backward_weights(c, BackwardWeights::geometry(c));
  }

 private:
  std::optional<DirectConvolution<BackwardWeights>> convolution_;
  int64_t own_bytes_ = 0;
};
template <class Way>
struct DirectOf {
  using type = DirectConvolution<Way>;
};
template <>
struct DirectOf<BackwardWeights> {
  using type = DirectWeights;
};

/// Writes 0 to the activations outside that a kernel has computed.
template <class Way>
void clear_results(const KernelCall& c) {
  if constexpr (Way::direction != Direction::backward_weights) clear_outside(c.outs[0], outside_of(c));
}

/// If all pixels are outside of a mask, writes the results, which are 0, and returns true.
template <class Way>
bool is_empty(const KernelCall& c) {
  const Outside* const outside = outside_of(c);
  if (!outside || !outside->empty) return false;
  clear_results<Way>(c);
  if constexpr (Way::direction == Direction::backward_weights)
    for (uint32_t i = 0; i < c.n_outs; i++) std::fill_n(floats(c.outs[i]), ops::elements(c.outs[i]), 0.0f);
  *c.step->skipped = 1;
  return true;
}

/// In a masked network, pixels whose windows hold only zeros are skipped, if the scratch of the direct kernel is enough for that. The same
/// kernel computes full masks: an image on a canvas has the bits of the image alone.
template <class Way>
class Direct {
 public:
  explicit Direct(const KernelCall& c) : geometry_(Way::geometry(c)), kernel_(c) {
    const int64_t bytes = ops::is_bf16(c) ? 0 : live::bytes(geometry_, Way::direction == Direction::backward_data);
    skips_ = bytes > 0 && bytes <= kernel_.workspace_bytes();
  }
  int64_t workspace_bytes() const { return kernel_.workspace_bytes(); }
  void compile() const { kernel_.compile(); }
  void run(const KernelCall& c) {
    if (is_empty<Way>(c)) return;
    if (skips_ && is_masked(c)) {
      *c.step->skipped = Way::run_live(geometry_, c);
    } else {
      kernel_.run(c);
      clear_results<Way>(c);
    }
  }

 private:
  ops::Conv2d geometry_;
  typename DirectOf<Way>::type kernel_;
  bool skips_ = false;
};

/// Fewer channels than this leave most of a vector empty.
constexpr int64_t least_channels = 16;
bool has_many_channels(const ops::Conv2d& g) { return std::min(g.in_channels, g.out_channels) >= least_channels; }

template <class Way>
class Winograd {
 public:
  static constexpr const char* name = "winograd";
  static bool applies(const KernelCall& c) { return conv2d_winograd::applies(Way::geometry(c)); }
  /// If most windows lie in the padding, or few pixels are a dilation apart, tiles would be mostly empty.
  static bool worthwhile(const KernelCall& c) {
    const winograd::Geometry tiles = Way::tiles(c);
    return has_many_channels(Way::geometry(c)) && winograd::products(tiles) < winograd::products_of_windows(tiles);
  }
  explicit Winograd(const KernelCall& c) : tiles_(Way::tiles(c)), workspace_bytes_(Way::winograd_bytes(c)) {}
  int64_t workspace_bytes() const { return workspace_bytes_; }
  void run(const KernelCall& c) const {
    if (!is_empty<Way>(c)) Way::run_winograd(tiles_, c);
  }

 private:
  winograd::Geometry tiles_;
  int64_t workspace_bytes_;
};

/// Worth a try where windows are dilated, for which other kernels are slow or compute with the padding.
template <class Way>
class Taps {
 public:
  static constexpr const char* name = "taps";
  static bool applies(const KernelCall& c) { return taps::applies(Way::geometry(c)); }
  static bool worthwhile(const KernelCall& c) {
    const ops::Conv2d g = Way::geometry(c);
    const auto& [h, w] = g.window;
    return has_many_channels(g) && (h.dilation > 1 || w.dilation > 1) && h.kernel * w.kernel > 1;
  }
  explicit Taps(const KernelCall& c) : kernel_(Way::direction, Way::geometry(c), c) {}
  int64_t workspace_bytes() const { return kernel_.workspace_bytes(); }
  void compile() const { kernel_.compile(); }
  void run(const KernelCall& c) {
    if (is_empty<Way>(c)) return;
    Way::run_taps(kernel_, c);
    clear_results<Way>(c);
  }

 private:
  taps::Kernel kernel_;
};

/// Own kernels of grouped convolutions. A depthwise one has few products for each packed pixel: oneDNN reads its pixels in place, but has
/// no fast weight gradient of windows above 3x3.
template <class Way>
class Grouped {
 public:
  static constexpr const char* name = "grouped";
  static bool applies(const KernelCall& c) { return grouped::applies(Way::geometry(c)); }
  static bool worthwhile(const KernelCall& c) {
    const ops::Conv2d g = Way::geometry(c);
    const auto& [h, w] = g.window;
    return g.group_in() > 1 || g.group_out() > 1 || (Way::direction == Direction::backward_weights && h.kernel * w.kernel > 9);
  }
  explicit Grouped(const KernelCall& c)
      : kernel_(Way::grouped_of(Way::geometry(c))),
        bias_sums_(Way::direction == Direction::backward_weights && c.n_outs > 1 ? channel_sums_bytes<1>(c.ins[1]) : 0) {}
  int64_t workspace_bytes() const { return std::max(kernel_.workspace_bytes(), bias_sums_); }
  void run(const KernelCall& c) const {
    if (is_empty<Way>(c)) return;
    Way::run_grouped(kernel_, c);
    clear_results<Way>(c);
  }

 private:
  decltype(Way::grouped_of(std::declval<const ops::Conv2d&>())) kernel_;
  int64_t bias_sums_;
};

/// Holds a number whose way this build does not have.
struct Missing : PlainKernel {
  static bool applies(const KernelCall&) { return false; }
  static bool worthwhile(const KernelCall&) { return false; }
  static void run(const KernelCall&) {}
};

/// The ways by their numbers. Taps are products of oneDNN's.
template <class Way>
constexpr KernelEntry ways() {
#ifdef SPILLWAY_WITHOUT_ONEDNN
  return entry<Direct<Way>, Winograd<Way>, Missing, Grouped<Way>>();
#else
  return entry<Direct<Way>, Winograd<Way>, Taps<Way>, Grouped<Way>>();
#endif
}

template <class Way>
struct Ways {
  static constexpr KernelEntry entry = ways<Way>();
};

}  // namespace

const KernelEntry conv2d = either_weight<Ways<Forward>>();
const KernelEntry conv2d_relu = either_weight<Ways<ForwardRelu>>();
const KernelEntry conv2d_bwd_data = either_weight<Ways<BackwardData>>();
const KernelEntry conv2d_bwd_weights = ways<BackwardWeights>();

}  // namespace spillway::cpu
