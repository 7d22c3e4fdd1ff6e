// Convolutions of live pixels: those whose windows hold a number that is not 0. In: a call of a masked network that ops/conv2d.hpp has
// checked, in floats. Out: the results of the direct convolution within rounding, and the share of pixels that were skipped. Invariant: the
// same bits for any number of threads, because a pixel's sum does not depend on the other pixels.
// Worked example: a row of 64 pixels whose middle 20 are live is one run of 20 pixels, multiplied by the weights of each row of the window.
#pragma once
#include "core/kernel.hpp"
#include "ops/conv2d.hpp"

namespace spillway::cpu::live {

/// Bytes of the weights in panels: all the scratch that a call needs; `turned`: of the data gradient. 0: the call is not supported.
int64_t bytes(const ops::Conv2d& g, bool turned);

/// Each returns the share of pixels that were skipped.
double forward(const ops::Conv2d& g, const KernelCall& c);
double backward_data(const ops::Conv2d& g, const KernelCall& c);
double backward_weights(const ops::Conv2d& g, const KernelCall& c);

}  // namespace spillway::cpu::live
