// The first step of every imitated function. In: its name. Out: true if it is the call to fail; true if the calling thread may call it now.
// Invariant: undefined behaviour of CUDA (a destroyed handle, memory unmapped while in use) ends the program with words that begin with
// "cuda rule:", so that no test passes over it.
#pragma once
#include <cstdint>
#include <mutex>

namespace spillway::host_cuda {

/// All of the imitated CUDA is under one lock; kernels run while it is held.
std::recursive_mutex& world();

/// Ends the program.
[[noreturn]] void broken(const char* rule, const char* where);

/// Counts the call; true when it is the one that fails. Nothing may be called once the process is on its way out.
bool fails(const char* function);

/// If a test only counts launches: counts one, and nothing is to run. False elsewhere.
extern int64_t counted_kernels, counted_products;
bool only_counts(int64_t& counted);

/// How jobs of different streams that no event orders are interleaved.
enum class Order : int { late, early, shuffled };
Order order();
/// For `shuffled`.
bool coin();

}  // namespace spillway::host_cuda
