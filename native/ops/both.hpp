// Marks a function that a GPU runs too.
#pragma once

#ifdef __CUDACC__
#define SPILLWAY_BOTH __host__ __device__
#else
#define SPILLWAY_BOTH
#endif
