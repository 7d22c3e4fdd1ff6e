// A convolution as a sum over the positions of its window, its taps: each joins some pixels of x with as many of y, and for those it
// is a 1x1 convolution. A tap that meets padding alone costs nothing, and strides and dilations cost no more than plain windows.
// In: a call that ops/conv2d.hpp has checked, ungrouped. Out: its scratch, its run.
// Worked example: 3x3 at dilation 12 on 16 rows and columns: the middle tap joins all 256 pixels, those beside it 64, the corners
// 16 each: a quarter of the nine times 256 that a kernel computes which takes padding for zeros. At dilation 24 one tap is left.
#pragma once
#include "cpu/convolution.hpp"

namespace spillway::cpu::taps {

inline bool applies(const ops::Conv2d& g) { return g.groups == 1; }

int64_t workspace_bytes(Direction direction, const ops::Conv2d& g, const KernelCall& c);
/// Generates the products' code.
void prepare(Direction direction, const ops::Conv2d& g, const KernelCall& c);

void forward(const ops::Conv2d& g, const KernelCall& c);
void backward_data(const ops::Conv2d& g, const KernelCall& c);
void backward_weights(const ops::Conv2d& g, const KernelCall& c);

}  // namespace spillway::cpu::taps
