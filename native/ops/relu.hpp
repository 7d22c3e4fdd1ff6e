// Legality of relu and its gradient: all operands hold one box.
#pragma once
#include "ops/check.hpp"

namespace spillway::ops {

inline Status check_relu(const KernelCall& c) { return check_same_boxes(c); }
inline Status check_relu_bwd(const KernelCall& c) { return check_same_boxes(c); }

}  // namespace spillway::ops
