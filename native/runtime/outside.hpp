// The calls of a masked network that may leave out the pixels outside of the mask. In: a checked tape. Out: for each call, the mask of its
// pixels. Invariant: the numbers outside are 0 anyway, or a product with the mask sets them to 0 before another operator reads them.
// Worked example: conv2d writes y, multiply clears y outside of m, in place, and bn_stats reads y. Then conv2d writes 0 outside of m,
// multiply finds it there, and bn_stats reads no pixel outside.
#pragma once
#include <vector>

#include "plan/tape.hpp"

namespace spillway {

/// `mask`: a view, or NONE. `fills`: the call writes 0 outside; otherwise its output has 0 there already.
struct OutsideOf {
  uint32_t mask = NONE;
  bool fills = false;
};

/// By call. Only the kernels of the cpu device leave pixels out.
std::vector<OutsideOf> outside_of(const Tape& tape);

}  // namespace spillway
