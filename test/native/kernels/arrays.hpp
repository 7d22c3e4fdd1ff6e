// Whole values for the kernel tests: arrays of doubles in B, C, H, W order, boxes of them, and seeded random ones.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace spillway::test {

using Dims = std::array<int64_t, 4>;

inline int64_t count_of(const Dims& d) { return d[0] * d[1] * d[2] * d[3]; }

struct Array {
  Dims dims{1, 1, 1, 1};
  std::vector<double> data = std::vector<double>(1);

  Array() = default;
  explicit Array(const Dims& d) : dims(d), data(size_t(count_of(d))) {}
  double& at(int64_t b, int64_t c, int64_t h, int64_t w) { return data[size_t(((b * dims[1] + c) * dims[2] + h) * dims[3] + w)]; }
  double at(int64_t b, int64_t c, int64_t h, int64_t w) const { return const_cast<Array*>(this)->at(b, c, h, w); }
};

/// [lo, lo + size) in each dimension.
struct Box {
  Dims lo{0, 0, 0, 0}, size{1, 1, 1, 1};
};
inline Box whole(const Dims& d) { return {{0, 0, 0, 0}, d}; }

/// Calls f(b, c, h, w) for each place of a box.
template <class F>
void each_place(const Box& box, F f) {
  for (int64_t b = box.lo[0]; b < box.lo[0] + box.size[0]; b++)
    for (int64_t c = box.lo[1]; c < box.lo[1] + box.size[1]; c++)
      for (int64_t h = box.lo[2]; h < box.lo[2] + box.size[2]; h++)
        for (int64_t w = box.lo[3]; w < box.lo[3] + box.size[3]; w++) f(b, c, h, w);
}

inline void add_box(Array& sum, const Box& box, const Array& part) {
  each_place(whole(box.size), [&](int64_t b, int64_t c, int64_t h, int64_t w) {
    sum.at(b + box.lo[0], c + box.lo[1], h + box.lo[2], w + box.lo[3]) += part.at(b, c, h, w);
  });
}

inline double norm(const Array& a) {
  double sum = 0;
  for (const double v : a.data) sum += v * v;
  return std::sqrt(sum);
}

/// Relative distance in norm, with a floor for values that are zero in truth. NaN when a NaN stands on one side only.
inline double distance(const Array& a, const Array& b) {
  if (a.dims != b.dims) return HUGE_VAL;
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); i++) {
    if (std::isnan(a.data[i]) && std::isnan(b.data[i])) continue;
    if (a.data[i] == b.data[i]) continue;
    sum += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
  }
  return sum == 0 ? 0 : std::sqrt(sum) / std::max(norm(b), 1e-3);
}

inline double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); i++) sum += a.data[i] * b.data[i];
  return sum;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t between(int64_t lo, int64_t hi) { return lo + int64_t(engine_() % uint64_t(hi - lo + 1)); }
  bool chance(double p) { return double(engine_() >> 11) * 0x1p-53 < p; }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[between(0, int64_t(choices.size()) - 1)];
  }
  /// Normal values that f32 holds exactly, so that both element types start from the same numbers.
  Array normal(const Dims& d, double deviation = 1, double mean = 0) {
    Array a(d);
    std::normal_distribution<double> draw(mean, deviation);
    for (double& v : a.data) v = float(draw(engine_));
    return a;
  }
  Array positive(const Dims& d) {
    Array a = normal(d);
    for (double& v : a.data) v = float(std::abs(v) + 0.5);
    return a;
  }
  Array labels(const Dims& d, int64_t classes) {
    Array a(d);
    for (double& v : a.data) v = double(between(-1, classes));  // one below and one above are no labels
    return a;
  }

 private:
  std::mt19937_64 engine_;
};

inline std::string text(const Dims& d) {
  return "[" + std::to_string(d[0]) + "," + std::to_string(d[1]) + "," + std::to_string(d[2]) + "," + std::to_string(d[3]) + "]";
}

}  // namespace spillway::test
