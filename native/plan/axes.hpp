// A view's dimensions of more than one element, from the innermost (smallest stride) outwards.
#pragma once
#include <array>

#include "plan/tape.hpp"

namespace spillway {

struct Axis {
  uint64_t stride, dim;
};  // stride in elements

struct Axes {
  std::array<Axis, 4> axis;
  size_t count = 0;
};

inline Axes sorted_axes(const ViewRecord& v) {
  Axes axes{};
  for (size_t d = 0; d < 4; d++) {
    if (v.dims[d] == 1) continue;
    size_t at = axes.count++;
    for (; at > 0 && axes.axis[at - 1].stride > v.strides[d]; at--) axes.axis[at] = axes.axis[at - 1];
    axes.axis[at] = {v.strides[d], v.dims[d]};
  }
  return axes;
}

}  // namespace spillway
