// The peaks of this processor, each the best of several loops. In: the number of threads. Out: a line of JSON. Arithmetic operations a
// second of fp32 and of bf16 (0: the processor has no instruction for it). Bytes a second read from memory, read from the last cache, and
// written. The bytes of that cache.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace {

using Block = float __attribute__((vector_size(64)));
constexpr int chains = 24;
constexpr int trials = 40;
volatile float opaque = 0.999f, sink = 0;

/// Uses vectors, so that they are computed.
template <class V, size_t n>
void keep(const V (&sums)[n]) {
  V all = sums[0];
  for (size_t i = 1; i < n; i++) all += sums[i];
  sink = all[0];
}

/// The best of several trials of `work` a second, on all threads.
template <class Body>
double best_rate(double work, Body body) {
  double best = 0;
  for (int i = 0; i < trials; i++) {
    const auto began = std::chrono::steady_clock::now();
#pragma omp parallel
    body(omp_get_thread_num());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    best = std::max(best, work * omp_get_max_threads() / seconds);
  }
  return best;
}

double products() {
  constexpr int64_t rounds = 400'000;
  return best_rate(2.0 * 16 * chains * rounds, [](int) {
    Block sums[chains];
    for (Block& sum : sums) sum = Block{} + opaque;  // chains that start alike would be one
    const float unknown = opaque;
    const Block factor = Block{} + unknown;
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 24
      for (int k = 0; k < chains; k++) sums[k] = sums[k] * factor + factor;
    }
    keep(sums);
  });
}

double pairs() {
#ifdef __AVX512BF16__
  constexpr int64_t rounds = 400'000;
  return best_rate(4.0 * 16 * chains * rounds, [](int) {
    __m512 sums[chains];
    for (__m512& sum : sums) sum = _mm512_set1_ps(opaque);
    const __m512bh factor = _mm512_cvtne2ps_pbh(_mm512_set1_ps(opaque), _mm512_set1_ps(opaque));
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 24
      for (int k = 0; k < chains; k++) sums[k] = _mm512_dpbf16_ps(sums[k], factor, factor);
    }
    keep(sums);
  });
#else
  return 0;
#endif
}

/// Bytes of an array for each thread, read `times` times.
double reads(std::vector<std::vector<Block>>& arrays, size_t bytes, int times) {
  const size_t blocks = bytes / sizeof(Block);
  return best_rate(double(bytes) * times, [&](int thread) {
    const Block* const from = arrays[size_t(thread)].data();
    Block sums[8] = {};
    for (int t = 0; t < times; t++)
      for (size_t i = 0; i + 8 <= blocks; i += 8)
        for (size_t k = 0; k < 8; k++) sums[k] += from[i + k];
    keep(sums);
  });
}

double writes(std::vector<std::vector<Block>>& arrays, size_t bytes) {
  return best_rate(double(bytes), [&](int thread) {
    std::memset(static_cast<void*>(arrays[size_t(thread)].data()), 0, bytes);
    asm volatile("" ::: "memory");
  });
}

/// Bytes of the last cache, as the kernel says.
size_t last_cache() {
  for (const char* const level : {"3", "2", "1"}) {
    std::ifstream file(std::string("/sys/devices/system/cpu/cpu0/cache/index") + level + "/size");
    if (size_t kilobytes = 0; file >> kilobytes) return kilobytes << 10;
  }
  return size_t(1) << 20;
}

}  // namespace

int main(int argc, char** argv) {
  omp_set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  const size_t threads = size_t(omp_get_max_threads()), large = size_t(256) << 20;
  const size_t cache = last_cache();
  std::vector<std::vector<Block>> arrays(threads, std::vector<Block>(large / sizeof(Block)));
  const double fp32 = products(), bf16 = pairs(), memory = reads(arrays, large, 1);
  const double near = reads(arrays, cache / 4 / threads, 32), written = writes(arrays, large);
  std::printf("{\"flops\":%.4g,\"bf16Flops\":%.4g,\"readBytes\":%.4g,\"cachedBytes\":%.4g,\"writtenBytes\":%.4g,\"cacheBytes\":%zu}\n",
              fp32, bf16, memory, near, written, cache);
}
