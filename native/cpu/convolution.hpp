// One convolution on oneDNN's direct algorithms, in any of its three directions, for conv2d and conv_transpose2d.
// Activations are channels-last; weights are reordered from OIHW. The padding of a tile follows from its place. If
// the view of src holds pixels that no window reads, and for strided 1x1 weight gradients, the primitive reads a
// packed grid of src's pixels in the workspace instead of src.
#pragma once
#include "cpu/kernels.hpp"
#include "cpu/runs.hpp"
#include "ops/conv2d.hpp"
#ifdef SPILLWAY_WITHOUT_ONEDNN
#include "cpu/no_primitives.hpp"
#else
#include "cpu/onednn.hpp"
#endif

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

/// The stored type of activations. The written one of bf16 activations may be floats: then it is a part of a sum.
enum class Activations { floats, bf16, bf16_to_floats };
inline Activations activations_of(const KernelCall& c) { return ops::is_bf16(c) ? Activations::bf16 : Activations::floats; }

std::shared_ptr<const Convolution> convolution_of(Direction direction, const ops::Conv2d& g, bool bias, Activations activations);

/// A convolution for one prepared call; the reference's kernel where nothing is compiled.
class ReadyConvolution {
 public:
  ReadyConvolution(std::shared_ptr<const Convolution> made, const KernelCall& c);

  bool is_compiled() const { return bound_.has_value(); }
  int64_t workspace_bytes() const { return reference_ ? reference_->workspace_bytes() : made_->workspace_bytes; }
  void compile() const {
    if (made_->compiled) made_->compiled->prepare();
  }
  /// On arguments in oneDNN's order; src, at `src_at` among them, is the operand that may be packed.
  void run(const KernelCall& c, const View& src, bool writes_src, std::span<void*> data, size_t src_at);

 private:
  std::shared_ptr<const Convolution> made_;
  std::optional<Bound> bound_;
  std::unique_ptr<PreparedKernel> reference_;
};

/// The directions of an operator as objects: a Way has `check`, `of(call)` and `run(ReadyConvolution&, call)`.
template <class Way>
class DirectConvolution {
 public:
  explicit DirectConvolution(const KernelCall& c) : convolution_(Way::of(c), c) {}
  int64_t workspace_bytes() const { return convolution_.workspace_bytes(); }
  void compile() const { convolution_.compile(); }
  void run(const KernelCall& c) { Way::run(convolution_, c); }

 private:
  ReadyConvolution convolution_;
};

}  // namespace spillway::cpu
