// Chan's merge of statistics, in one place. Tiles and ranks get the same bits, because no other code compiles the formula.
#pragma once
#include "core/kernel.hpp"

namespace spillway::cpu {

/// y (ny elements so far; none: y becomes x) and x (nx elements).
void merge_moments_of(const View& x, double nx, const View& y, double ny);

}  // namespace spillway::cpu
