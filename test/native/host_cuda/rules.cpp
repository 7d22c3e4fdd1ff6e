// Settings come from the environment when the library is loaded, and from the functions at the end, for tests.
#include "test/native/host_cuda/rules.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

namespace spillway::host_cuda {
namespace {

int64_t number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text ? std::atoll(text) : 0;
}

Order order_asked() {
  const char* const text = std::getenv("SPILLWAY_HOST_CUDA_ORDER");
  const std::string_view name = text ? text : "late";
  return name == "early" ? Order::early : name == "shuffled" ? Order::shuffled : Order::late;
}

std::atomic<int64_t> to_failure{number_of("SPILLWAY_HOST_CUDA_FAILS")}, calls{0};
std::atomic<int> the_order{int(order_asked())};
std::atomic<bool> over{false}, counting{false};

}  // namespace

std::recursive_mutex& world() {
  static std::recursive_mutex& mutex = *new std::recursive_mutex;
  return mutex;
}

void broken(const char* rule, const char* where) {
  std::fprintf(stderr, "cuda rule: %s (%s)\n", rule, where);
  std::fflush(nullptr);
  std::abort();
}

bool fails(const char* function) {
  if (over) broken("nothing is called when the process is on its way out", function);
  calls++;
  return to_failure > 0 && --to_failure == 0;
}

int64_t counted_kernels = 0, counted_products = 0;
bool only_counts(int64_t& counted) {
  if (counting) counted++;
  return counting;
}

Order order() { return Order(the_order.load()); }

bool coin() {
  static std::mt19937 random(7);
  return random() % 2 == 0;
}

}  // namespace spillway::host_cuda

#define SPILLWAY_SHOWN extern "C" __attribute__((visibility("default")))
/// The nth call from now on fails; 0: none.
SPILLWAY_SHOWN void spillway_host_cuda_fail(int64_t nth) { spillway::host_cuda::to_failure = nth; }
SPILLWAY_SHOWN int64_t spillway_host_cuda_calls() { return spillway::host_cuda::calls; }
/// 0: what nobody waits for runs as late as it may; 1: other streams run before the one that is waited for; 2: by chance.
SPILLWAY_SHOWN void spillway_host_cuda_order(int order) { spillway::host_cuda::the_order = order; }
/// From now on kernels and libraries' products are counted and do not run; their addresses lead nowhere.
SPILLWAY_SHOWN void spillway_host_cuda_count() { spillway::host_cuda::counting = true; }
SPILLWAY_SHOWN void spillway_host_cuda_counted(int64_t* kernels, int64_t* products) {
  *kernels = spillway::host_cuda::counted_kernels;
  *products = spillway::host_cuda::counted_products;
}
/// From now on no function may be called.
SPILLWAY_SHOWN void spillway_host_cuda_over() { spillway::host_cuda::over = true; }
/// A process that leaves by _exit writes its executed lines first, if they are counted (scripts/cuda/coverage.js).
#ifdef SPILLWAY_COVERED
extern "C" void __gcov_dump();
SPILLWAY_SHOWN void spillway_host_cuda_leaving() { __gcov_dump(); }
#else
SPILLWAY_SHOWN void spillway_host_cuda_leaving() {}
#endif
