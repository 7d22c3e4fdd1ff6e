// A random case: a family holds the calls that belong together (forward, backwards) on the same numbers, and the gradients to compare with
// finite differences.
#pragma once
#include "test/native/kernels/asked.hpp"
#include "test/native/kernels/calls.hpp"

namespace spillway::test {

/// The reference in double: the peer of all others.
inline std::vector<Array> reference(const Call& call) { return run_whole(call, {ref::kernel, DType::f64}); }

/// If activations have 16 bits, the reference rounds its inputs and stores as the others do.
inline std::vector<Array> reference(const Call& call, DType dtype) {
  return ops::is_half(dtype) ? run_whole(call, {ref::kernel, dtype}) : reference(call);
}

/// The tolerance of results in bf16.
constexpr double BF16_TOLERANCE = 2e-2;
/// f16 has three bits more, and coarse numbers below 2^-14.
constexpr double F16_TOLERANCE = 4e-3;
/// Products of factors in TF32, against the size of their terms: cutting both off takes up to 2^-9 of a term.
constexpr double TF32_TOLERANCE = 2e-3;

/// d(forward(x)·dy)/dx is `gradient`.
struct Gradient {
  std::string what;
  std::function<Array(const Array&)> forward;
  Array x, dy, gradient;
};

struct Family {
  std::vector<Call> calls;
  std::vector<Gradient> gradients;
};

/// A family with a number of random cases.
struct Generator {
  const char* name;
  Family (*make)(Random&);
  int most;
  int times_in_full;

  /// One in `of` of its cases; fewer under sanitizers, which make them many times slower, and with SPILLWAY_TEST_SHARE.
  int cases(int of = 1) const {
    const int all = most * (std::getenv("SPILLWAY_FULL") ? times_in_full : 1);
    const char* const share = std::getenv("SPILLWAY_TEST_SHARE");
    const int one_in = SPILLWAY_ONE_CASE_IN * of * std::max(1, share ? std::atoi(share) : 1);
    return (all + one_in - 1) / one_in;
  }

  /// The wanted part of one case: all of a named family, else the calls of named operators.
  Family draw(Random& r) const {
    Family family = make(r);
    if (is_asked(name)) return family;
    std::erase_if(family.calls, [](const Call& call) { return !is_asked(name_of(call)); });
    std::erase_if(family.gradients, [](const Gradient& gradient) { return !is_asked(gradient.what); });
    return family;
  }
};

inline std::vector<Generator>& generators() {
  static std::vector<Generator> all;
  return all;
}

/// For families whose sizes decide which code runs, a library's own among it.
constexpr int MANY = 20;

/// Stands below a family and lists it.
struct Listed {
  Listed(const char* name, Family (*make)(Random&), int most, int times_in_full = 1) {
    generators().push_back({name, make, most, times_in_full});
  }
};

/// The gradient of `forward`'s output 0 by input `i`.
inline Gradient gradient_of(const Call& forward, size_t i, const Array& dy, const Array& gradient) {
  return {name_of(forward) + " by input " + std::to_string(i),
          [forward, i](const Array& moved) {
            Call call = forward;
            call.ins[i].value = moved;
            return reference(call)[0];
          },
          forward.ins[i].value, dy, gradient};
}

inline int64_t channels(Random& r) { return r.pick<int64_t>({1, 2, 3, 5, 8, 12, 16, 17, 31, 32, 48, 65}); }
inline Dims image(Random& r) { return {r.between(1, 3), channels(r), r.between(1, 13), r.between(1, 17)}; }

}  // namespace spillway::test
