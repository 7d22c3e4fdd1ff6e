// Random cases for every operator of the table, by family: `generators()` lists what these files add to it.
#pragma once
#include "test/native/kernels/layer_cases.hpp"
#include "test/native/kernels/pointwise_cases.hpp"
#include "test/native/kernels/resample_cases.hpp"
#include "test/native/kernels/transposed_cases.hpp"
#include "test/native/kernels/window_cases.hpp"
