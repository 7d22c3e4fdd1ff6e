// Chan's merge of statistics, in one place: tiles and ranks have the same bits, whatever a compiler makes of its formula elsewhere.
#pragma once
#include "core/kernel.hpp"

namespace spillway::cpu {

/// y (ny elements so far; none: y becomes x) and x (nx elements).
void merge_moments_of(const View& x, double nx, const View& y, double ny);

}  // namespace spillway::cpu
