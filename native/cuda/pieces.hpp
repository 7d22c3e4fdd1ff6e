// The cuts of the pool's physical memory into handles. A handle can only be mapped whole, so each mapping begins and ends
// at a cut. Worked example: 8 pages, mappings of [2,5) and [4,8): 0 2 4 5 8.
#pragma once
#include <algorithm>
#include <vector>

#include "runtime/device.hpp"

namespace spillway::cuda {

inline std::vector<uint64_t> piece_bounds(const PoolLayout& layout) {
  std::vector<uint64_t> bounds{0, layout.pool_pages};
  for (uint64_t i = 0; i < layout.n_mappings; i++) {
    bounds.push_back(layout.mappings[i].phys);
    bounds.push_back(layout.mappings[i].phys + layout.mappings[i].count);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

}  // namespace spillway::cuda
