// What every imitated function does first. In: its name. Out: whether it is the call that is to fail, whether the calling
// thread may call it now. Invariant: what CUDA leaves undefined (a handle that is gone, memory unmapped while it is used)
// ends the program with words that begin with "cuda rule:", so that no test passes over it.
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

/// Where a test only asks how much is launched: counts one, and nothing is to run. False elsewhere.
extern int64_t counted_kernels, counted_products;
bool only_counts(int64_t& counted);

/// How jobs of different streams that no event orders are interleaved.
enum class Order : int { late, early, shuffled };
Order order();
/// For `shuffled`.
bool coin();

}  // namespace spillway::host_cuda
