// Transposed convolution and its gradients on oneDNN: a convolution's backward data, forward and weight gradient, with the
// view of y as the whole image. The bias, and windows that all miss the view, are handled here, because oneDNN does not
// support them.
#include "ops/convtranspose2d.hpp"

#include "cpu/channel_maps.hpp"
#include "cpu/channel_sums.hpp"
#include "cpu/convolution.hpp"
#include "cpu/laid.hpp"

namespace spillway::cpu {
namespace {

/// The same axis where the view of y is all there is: parts of windows outside it are padding.
ops::WindowAxis within_view(ops::WindowAxis axis) {
  axis.pad += axis.in_lo;
  axis.in_lo = 0;
  axis.in_extent = axis.in_size;
  return axis;
}

std::shared_ptr<const Convolution> convolution(Direction direction, const KernelCall& c, const View& x, const View& y, const View& w) {
  ops::Conv2d g = ops::conv_transpose2d_geometry(ConvTranspose2dAttrs::read(c.attrs), x, y, w);
  g.window = {within_view(g.window.h), within_view(g.window.w)};
  static const auto nothing = std::make_shared<const Convolution>();
  return g.window.h.core_size() > 0 && g.window.w.core_size() > 0 ? convolution_of(direction, g, false, activations_of(c)) : nothing;
}

void add_bias(const View& y, const View& bias) {
  each_pixel<1>({&y}, [b = floats(bias)](Pointers<1> at, int64_t first, int64_t n) {
    float* const pixel = at[0];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) pixel[i] += b[first + i];
  });
}

struct Forward {
  static auto of(const KernelCall& c) { return convolution(Direction::backward_data, c, c.ins[0], c.outs[0], c.ins[1]); }
  static void run(ReadyConvolution& convolution, const KernelCall& c) {
    void* data[] = {c.ins[0].data, c.ins[1].data, c.outs[0].data};
    convolution.run(c, c.outs[0], true, data, 2);
    if (convolution.is_compiled() && c.n_ins > 2) add_bias(c.outs[0], c.ins[2]);
  }
};

struct BackwardData {
  static auto of(const KernelCall& c) { return convolution(Direction::forward, c, c.outs[0], c.ins[0], c.ins[1]); }
  static void run(ReadyConvolution& convolution, const KernelCall& c) {
    void* data[] = {c.ins[0].data, c.ins[1].data, c.outs[0].data};
    convolution.run(c, c.ins[0], false, data, 0);
  }
};

/// The bias gradient's partial sums take over the scratch of the weight gradient.
struct BackwardWeights {
  static auto of(const KernelCall& c) { return convolution(Direction::backward_weights, c, c.ins[0], c.ins[1], c.outs[0]); }
  static void run(ReadyConvolution& convolution, const KernelCall& c) {
    void* data[] = {c.ins[1].data, c.ins[0].data, c.outs[0].data};
    convolution.run(c, c.ins[1], false, data, 0);
    if (convolution.is_compiled() && c.n_outs > 1) bias_gradient(c.ins[1], c.workspace, c.outs[1]);
  }
};

class Weights : public DirectConvolution<BackwardWeights> {
 public:
  explicit Weights(const KernelCall& c) : DirectConvolution(c), sums_(c.n_outs > 1 ? channel_sums_bytes<1>(c.ins[1]) : 0) {}
  int64_t workspace_bytes() const { return std::max(DirectConvolution::workspace_bytes(), sums_); }

 private:
  int64_t sums_;
};

template <class Way>
struct Direct {
  static constexpr KernelEntry entry = cpu::entry<DirectConvolution<Way>>();
};

}  // namespace

const KernelEntry conv_transpose2d = either_weight<Direct<Forward>>();
const KernelEntry conv_transpose2d_bwd_data = either_weight<Direct<BackwardData>>();
const KernelEntry conv_transpose2d_bwd_weights = entry<Weights>();

}  // namespace spillway::cpu
