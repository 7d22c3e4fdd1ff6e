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

/// The calls with a weight, laid out, and the call that lays it out.
inline Family with_laid_weights(const Family& f) {
  Family laid;
  for (Call call : f.calls) {
    if (call.ins[1].tensor) continue;
    call.ins[1] = laid_out(call.ins[1].value);
    laid.calls.push_back(call);
  }
  const Array w = laid.calls[0].ins[1].value;
  laid.calls.push_back({OpKind::lay_out, {}, {parameter(w, 4)}, {laid_out(Array(w.dims))}, 0, {}, true});
  return laid;
}

inline int64_t reach(const WindowShape& s, int axis) { return s.dilation[axis] * (s.kernel[axis] - 1) + 1; }

/// An extent that the window fits into.
inline int64_t extent_for(Random& r, const WindowShape& s, int axis, int64_t padding) {
  return std::max<int64_t>(1, reach(s, axis) - padding) + r.between(0, 12);
}

}  // namespace spillway::test
