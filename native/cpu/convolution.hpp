// One convolution on oneDNN's direct algorithms, in any of its three directions, for whichever operator asks (conv2d,
// conv_transpose2d): activations channels-last, weights reordered from OIHW. A tile's padding follows from its place.
// Where the view of src holds pixels that no window reads, and for strided 1x1 weight gradients, the primitive sees a
// packed grid of src's pixels in the workspace instead of src.
#pragma once
#include "cpu/onednn.hpp"
#include "cpu/runs.hpp"
#include "ops/conv2d.hpp"

namespace spillway::cpu {

enum class Direction { forward, backward_data, backward_weights };

/// Along one axis of a view: `count` rows from `first` on, every `step`-th; those outside the view are padding, zero.
struct GridAxis {
  int64_t first, count, step;
};
struct Grid {
  GridAxis h, w;
};

/// A compiled convolution and, behind its workspace, the packed grid of x. Nothing compiled where oneDNN has only a
/// reference implementation (windows mostly in the padding of a sliver of an image): ours serves as well.
struct Convolution {
  std::optional<Compiled> compiled;
  std::optional<Grid> packed;
  int64_t packed_offset = 0, workspace_bytes = 0;
};

/// What activations are stored as. Of bf16 ones, that which is written may be floats all the same: then it is a part of a sum.
enum class Activations { floats, bf16, bf16_to_floats };
inline Activations activations_of(const KernelCall& c) { return ops::is_narrow(c) ? Activations::bf16 : Activations::floats; }

std::shared_ptr<const Convolution> convolution_of(Direction direction, const ops::Conv2d& g, bool bias, Activations activations);

/// Runs a convolution on its arguments in oneDNN's order; src, at `src_at` among them, is the operand that may be packed.
void run_convolution(const Convolution& convolution, const KernelCall& c, const View& src, bool writes_src, std::vector<void*> data,
                     size_t src_at);

/// What the directions of an operator share: a Way has `check`, `of(call)` and `run(call)`.
template <class Way>
struct ConvolutionKernel : Way {
  static int64_t workspace(const KernelCall& c) {
    const auto convolution = Way::of(c);
    return convolution->compiled ? convolution->workspace_bytes : ref::kernel(c.kind)->workspace_bytes(c);
  }
  static void prepare(const KernelCall& c) {
    if (const auto convolution = Way::of(c); convolution->compiled) convolution->compiled->prepare();
  }
};

}  // namespace spillway::cpu
