// Convolution and its gradients on oneDNN.
#include "cpu/convolution.hpp"

namespace spillway::cpu {
namespace {

ops::Conv2d geometry(const KernelCall& c, const View& x, const View& y, const View& w) {
  return ops::conv2d_geometry(Conv2dAttrs::read(c.attrs), x, y, w);
}

struct Forward {
  static constexpr auto check = ops::check_conv2d;
  static auto of(const KernelCall& c) {
    return convolution_of(Direction::forward, geometry(c, c.ins[0], c.outs[0], c.ins[1]), c.n_ins > 2);
  }
  static void run(const KernelCall& c) {
    std::vector<void*> data{c.ins[0].data, c.ins[1].data, c.outs[0].data};
    if (c.n_ins > 2) data.push_back(c.ins[2].data);
    run_convolution(*of(c), c, c.ins[0], false, std::move(data), 0);
  }
};

struct BackwardData {
  static constexpr auto check = ops::check_conv2d_bwd_data;
  static auto of(const KernelCall& c) {
    return convolution_of(Direction::backward_data, geometry(c, c.outs[0], c.ins[0], c.ins[1]), false);
  }
  static void run(const KernelCall& c) {
    run_convolution(*of(c), c, c.outs[0], true, {c.ins[0].data, c.ins[1].data, c.outs[0].data}, 2);
  }
};

struct BackwardWeights {
  static constexpr auto check = ops::check_conv2d_bwd_weights;
  static auto of(const KernelCall& c) {
    return convolution_of(Direction::backward_weights, geometry(c, c.ins[0], c.ins[1], c.outs[0]), c.n_outs > 1);
  }
  static void run(const KernelCall& c) {
    std::vector<void*> data{c.ins[0].data, c.ins[1].data, c.outs[0].data};
    if (c.n_outs > 1) data.push_back(c.outs[1].data);
    run_convolution(*of(c), c, c.ins[0], false, std::move(data), 0);
  }
};

}  // namespace

const KernelEntry conv2d = entry<ConvolutionKernel<Forward>>();
const KernelEntry conv2d_bwd_data = entry<ConvolutionKernel<BackwardData>>();
const KernelEntry conv2d_bwd_weights = entry<ConvolutionKernel<BackwardWeights>>();

}  // namespace spillway::cpu
