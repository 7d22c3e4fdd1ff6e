// A convolution for cuDNN, and the ways that cuDNN has to run it. In: sizes, factors, the operations on its results. Out:
// an engine's plan, which may rectify its result, or none: then the device's own kernel runs. Invariant: a problem has
// the same ways for the life of the process.
#pragma once
#include <array>

#include "cuda/backend.hpp"
#include "cuda/factors.hpp"

namespace spillway::cuda {

using Sizes = std::array<int64_t, 4>;

enum class Direction { forward, backward_data, backward_weights };
enum Tensor : int64_t { X = 1, W = 2, Y = 3, BIAS = 4 };

/// The operations on each result of a forward convolution.
struct Epilogue {
  bool bias = false, rectified = false;
  double slope = 0;
  bool any() const { return bias || rectified; }
  auto operator<=>(const Epilogue&) const = default;
};

/// Sizes B, C, H, W and O, C/groups, kH, kW. All three are stored as the factors are, a gradient of weights too: engines that write it in
/// f32 from bf16 take seven times as long on an H100 (one block of them goes over all pixels).
struct Problem {
  Direction direction;
  Factors factors;
  Sizes x, w, y;
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t align_x, align_y;  // bytes that addresses are multiples of
  Epilogue epilogue;
  auto operator<=>(const Problem&) const = default;
};

/// `fused`: the plan does the epilogue too. Without a plan the device's own kernel runs, whole.
struct ConvolutionWay {
  const ExecutionPlan* plan = nullptr;
  bool fused = false;
};

/// An error if there are fewer.
Result<ConvolutionWay> convolution_way(const Problem& p, const Rank& choice);

}  // namespace spillway::cuda
