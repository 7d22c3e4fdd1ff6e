// Random windows of convolutions and poolings, and images that they fit into.
#pragma once
#include "test/native/kernels/families.hpp"

namespace spillway::test {

inline WindowShape random_window(Random& r, int64_t most_kernel, bool dilated) {
  WindowShape s;
  for (int axis = 0; axis < 2; axis++) {
    s.kernel[axis] = r.between(1, most_kernel);
    s.stride[axis] = r.between(1, 3);
    s.dilation[axis] = dilated ? r.pick<int64_t>({1, 1, 1, 2, 3}) : 1;
  }
  if (r.chance(0.7)) {
    s.kernel[1] = s.kernel[0];
    s.stride[1] = s.stride[0];
    s.dilation[1] = s.dilation[0];
  }
  return s;
}

inline int64_t reach(const WindowShape& s, int axis) { return s.dilation[axis] * (s.kernel[axis] - 1) + 1; }

/// An extent that the window fits into.
inline int64_t extent_for(Random& r, const WindowShape& s, int axis, int64_t padding) {
  return std::max<int64_t>(1, reach(s, axis) - padding) + r.between(0, 12);
}

}  // namespace spillway::test
