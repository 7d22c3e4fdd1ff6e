// A convolution as a sum over the positions of its window, its taps: each joins some pixels of x with as many of y, and for those it
// is a 1x1 convolution. A tap that meets padding alone costs nothing, and strides and dilations cost no more than plain windows.
// In: a call that ops/conv2d.hpp has checked, ungrouped. Out: a kernel prepared for it.
// Worked example: 3x3 at dilation 12 on 16 rows and columns: the middle tap joins all 256 pixels, those beside it 64, the corners
// 16 each: a quarter of the nine times 256 that a kernel computes which takes padding for zeros. At dilation 24 one tap is left.
#pragma once
#include "cpu/convolution.hpp"

namespace spillway::cpu::taps {

inline bool applies(const ops::Conv2d& g) { return g.groups == 1; }

/// Rows (or columns) of both views that a window's position joins: from y's `out` and x's `in` on, x's at the stride.
struct Stripe {
  int64_t out = 0, in = 0, count = 0;
};

struct Tap {
  int64_t position;  // in the window, row by row
  Stripe rows, columns;
  int64_t pixels;  // of all images
};

/// The places in the scratch: planes of weights, one [O,I] for each tap; pixels of either side (written ones as floats); sums, if the
/// result itself is bf16; the product's own scratch.
struct Places {
  int64_t planes, x, y, sums, product, bytes;
};

/// A convolution's taps that join any pixels, and a product for each, for one prepared call.
class Kernel {
 public:
  Kernel(Direction direction, const ops::Conv2d& g, const KernelCall& c);
  int64_t workspace_bytes() const { return std::max(places_.bytes, bias_sums_); }
  void compile() const;

  void forward(const KernelCall& c);
  void backward_data(const KernelCall& c);
  void backward_weights(const KernelCall& c);

 private:
  struct Product {
    std::shared_ptr<const Convolution> made;
    Bound bound;
  };
  template <class T>
  T* at(const KernelCall& c, int64_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(c.workspace) + offset);
  }
  float* plane(const KernelCall& c, size_t tap) const {
    return at<float>(c, places_.planes) + int64_t(tap) * g_.in_channels * g_.out_channels;
  }
  void take_weights(const KernelCall& c, const float* weights) const;
  void give_weights(const KernelCall& c, float* weights) const;

  ops::Conv2d g_;
  std::vector<Tap> taps_;
  std::vector<int64_t> tap_of_;  // by position in the window; -1: it joins nothing
  std::vector<Product> products_;
  Places places_{};
  int64_t bias_sums_;
};

}  // namespace spillway::cpu::taps
