// Convolution and its gradients: directly on oneDNN, by Winograd's algorithm, or tap by tap.
#include "cpu/conv2d_winograd.hpp"
#include "cpu/convolution.hpp"
#include "cpu/rectify.hpp"
#include "cpu/taps.hpp"

namespace spillway::cpu {
namespace {

ops::Conv2d conv2d_of(const KernelCall& c, const View& x, const View& y, const View& w) {
  return ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), x, y, w);
}

struct Forward {
  static constexpr auto direction = Direction::forward;
  static constexpr auto check = ops::check_conv2d;
  static ops::Conv2d geometry(const KernelCall& c) { return conv2d_of(c, c.ins[0], c.outs[0], c.ins[1]); }
  static auto of(const KernelCall& c) { return convolution_of(direction, geometry(c), c.n_ins > 2, activations_of(c)); }
  static void run(const KernelCall& c) {
    std::vector<void*> data{c.ins[0].data, c.ins[1].data, c.outs[0].data};
    if (c.n_ins > 2) data.push_back(c.ins[2].data);
    run_convolution(*of(c), c, c.ins[0], false, std::move(data), 0);
  }
  static winograd::Geometry tiles(const KernelCall& c) { return conv2d_winograd::towards_y(geometry(c), c.ins[0], c.outs[0]); }
  static int64_t winograd_bytes(const KernelCall& c) { return winograd::convolve_bytes(tiles(c), use_threads()); }
  static void run_winograd(const KernelCall& c) { conv2d_winograd::forward(tiles(c), c); }
  static void run_taps(const KernelCall& c) { taps::forward(geometry(c), c); }
};

/// Attributes begin with the convolution's own. oneDNN's rectifier would turn NaN into 0: ours runs behind it.
struct ForwardRelu : Forward {
  static constexpr auto check = ops::check_conv2d_relu;
  static float slope(const KernelCall& c) { return float(Conv2dReluAttrs::read(c.attrs).slope); }
  static void run(const KernelCall& c) {
    Forward::run(c);
    if (of(c)->compiled) rectify(c.outs[0], slope(c));  // the reference, where it stands in, has done it
  }
  static void run_winograd(const KernelCall& c) { conv2d_winograd::forward(tiles(c), c, {nullptr, true, slope(c)}); }
  static void run_taps(const KernelCall& c) {
    Forward::run_taps(c);
    rectify(c.outs[0], slope(c));
  }
};

struct BackwardData {
  static constexpr auto direction = Direction::backward_data;
  static constexpr auto check = ops::check_conv2d_bwd_data;
  static ops::Conv2d geometry(const KernelCall& c) { return conv2d_of(c, c.outs[0], c.ins[0], c.ins[1]); }
  static auto of(const KernelCall& c) { return convolution_of(direction, geometry(c), false, activations_of(c)); }
  static void run(const KernelCall& c) {
    run_convolution(*of(c), c, c.outs[0], true, {c.ins[0].data, c.ins[1].data, c.outs[0].data}, 2);
  }
  static winograd::Geometry tiles(const KernelCall& c) { return conv2d_winograd::towards_x(geometry(c), c.outs[0], c.ins[0]); }
  static int64_t winograd_bytes(const KernelCall& c) { return winograd::convolve_bytes(tiles(c), use_threads()); }
  static void run_winograd(const KernelCall& c) { conv2d_winograd::backward_data(tiles(c), c); }
  static void run_taps(const KernelCall& c) { taps::backward_data(geometry(c), c); }
};

struct BackwardWeights {
  static constexpr auto direction = Direction::backward_weights;
  static constexpr auto check = ops::check_conv2d_bwd_weights;
  static ops::Conv2d geometry(const KernelCall& c) { return conv2d_of(c, c.ins[0], c.ins[1], c.outs[0]); }
  static auto of(const KernelCall& c) { return convolution_of(direction, geometry(c), c.n_outs > 1, activations_of(c)); }
  static void run(const KernelCall& c) {
    std::vector<void*> data{c.ins[0].data, c.ins[1].data, c.outs[0].data};
    if (c.n_outs > 1) data.push_back(c.outs[1].data);
    run_convolution(*of(c), c, c.ins[0], false, std::move(data), 0);
  }
  static winograd::Geometry tiles(const KernelCall& c) { return conv2d_winograd::towards_y(geometry(c), c.ins[0], c.ins[1]); }
  static int64_t winograd_bytes(const KernelCall& c) { return conv2d_winograd::backward_weights_bytes(tiles(c), c); }
  static void run_winograd(const KernelCall& c) { conv2d_winograd::backward_weights(tiles(c), c); }
  static void run_taps(const KernelCall& c) { taps::backward_weights(geometry(c), c); }
};

/// Every way to run a direction.
template <class Way>
struct Kernel {
  using Direct = ConvolutionKernel<Way>;
  static constexpr auto check = Way::check;
  static bool offers(const KernelCall& c) {
    switch (c.algorithm) {
      case Algorithm::direct: return true;
      case Algorithm::winograd: return conv2d_winograd::applies(Way::geometry(c));
      case Algorithm::taps: return taps::applies(Way::geometry(c));
      default: return false;
    }
  }
  static int64_t workspace(const KernelCall& c) {
    switch (c.algorithm) {
      case Algorithm::direct: return Direct::workspace(c);
      case Algorithm::winograd: return Way::winograd_bytes(c);
      case Algorithm::taps: return taps::workspace_bytes(Way::direction, Way::geometry(c), c);
      default: return -1;
    }
  }
  static void prepare(const KernelCall& c) {
    if (c.algorithm == Algorithm::direct) Direct::prepare(c);
    if (c.algorithm == Algorithm::taps) taps::prepare(Way::direction, Way::geometry(c), c);
  }
  static void run(const KernelCall& c) {
    switch (c.algorithm) {
      case Algorithm::direct: return Way::run(c);
      case Algorithm::winograd: return Way::run_winograd(c);
      case Algorithm::taps: return Way::run_taps(c);
      default: return;
    }
  }
};

}  // namespace

const KernelEntry conv2d = entry<Kernel<Forward>>();
const KernelEntry conv2d_relu = entry<Kernel<ForwardRelu>>();
const KernelEntry conv2d_bwd_data = entry<Kernel<BackwardData>>();
const KernelEntry conv2d_bwd_weights = entry<Kernel<BackwardWeights>>();

}  // namespace spillway::cpu
