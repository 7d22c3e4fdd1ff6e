// Philox against the published known answers; fills of any sub-range, and their distribution; dropout's keeping rate.
#include "runtime/random.hpp"
#include "test/native/kernels/report.hpp"

#include <vector>

using namespace spillway;
using namespace spillway::test;

namespace {

/// From kat_vectors of Random123, the authors' own distribution.
void known_answers(Report& report) {
  struct Answer {
    PhiloxWords counter;
    PhiloxKey key;
    PhiloxWords words;
  };
  const Answer answers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Answer& a : answers) report.check(philox4x32(a.counter, a.key) == a.words, "a known answer of Philox4x32-10");
}

void sub_ranges(Report& report) {
  const RandomStream stream{42, stream_of("features.0.weight")};
  for (const Dist dist : {Dist::uniform, Dist::normal, Dist::constant, Dist::none}) {
    std::vector<double> all(1000);
    fill_random(all.data(), 5, 1000, dist, 0.5, stream);
    std::vector<float> single(1000);
    fill_random(single.data(), 5, 1000, dist, 0.5, stream);
    for (const uint64_t first : {5u, 6u, 7u, 8u, 123u, 1004u})
      for (const uint64_t count : {0u, 1u, 2u, 3u, 5u, 64u}) {
        if (first + count > 1005) continue;
        std::vector<double> part(count);
        fill_random(part.data(), first, count, dist, 0.5, stream);
        report.check(std::equal(part.begin(), part.end(), all.begin() + int64_t(first - 5)), "a sub-range is a part of the whole");
      }
    bool rounded = true;
    for (size_t i = 0; i < all.size(); i++) rounded = rounded && single[i] == float(all[i]);
    report.check(rounded, "f32 values are the rounded f64 values");
  }
}

void distributions(Report& report) {
  constexpr size_t n = 1 << 18;
  std::vector<double> v(n);
  const auto moment = [&](int power) {
    double sum = 0;
    for (const double x : v) sum += std::pow(x, power);
    return sum / double(n);
  };
  fill_random(v.data(), 0, n, Dist::uniform, 2.0, {1, 2});
  report.check(std::abs(moment(1)) < 0.02 && std::abs(moment(2) - 4.0 / 3) < 0.02, "uniform moments");
  report.check(*std::max_element(v.begin(), v.end()) <= 2.0 && *std::min_element(v.begin(), v.end()) >= -2.0, "uniform bounds");
  fill_random(v.data(), 0, n, Dist::normal, 3.0, {1, 2});
  report.check(std::abs(moment(1)) < 0.03 && std::abs(moment(2) - 9) < 0.1 && std::abs(moment(4) - 243) < 6, "normal moments");
  std::vector<double> other(n);
  fill_random(other.data(), 0, n, Dist::normal, 3.0, {1, 3});
  double product = 0;
  for (size_t i = 0; i < n; i++) product += v[i] * other[i];
  report.check(std::abs(product / double(n)) < 0.06, "streams are independent");
  std::vector<int32_t> labels(n);
  fill_labels(labels.data(), 0, n, 10, {1, 2});
  std::vector<int> counts(10);
  for (const int32_t label : labels) counts.at(size_t(label))++;
  report.check(*std::min_element(counts.begin(), counts.end()) > int(n / 10 * 0.97), "labels are uniform");
}

void dropout_rate(Report& report) {
  constexpr int n = 1 << 16;
  for (const double p : {0.0, 0.2, 0.5, 0.9}) {
    int kept = 0;
    for (int i = 0; i < n; i++) kept += dropout_keeps(7, dropout_stream(1, 3), uint64_t(i), dropout_threshold(p));
    report.check(std::abs(double(kept) / n - (1 - p)) < 0.01, "dropout keeps 1 - p of the elements");
  }
  bool agree = true;
  for (const double p : {0.0, 1e-12, 0.1, 1.0 / 3, 0.5, 0.999999}) {
    const uint32_t threshold = dropout_threshold(p);
    for (const uint32_t word : {0u, 1u, threshold - 1, threshold, threshold + 1, 0xffffffffu})
      agree = agree && (word >= threshold) == (uniform_of(word) >= p);
  }
  report.check(agree, "the threshold says what the uniform number says");
  report.check(dropout_threshold(1 - 1e-15) == 0xffffffff, "dropout of nearly all elements keeps nearly none");
  int same = 0;
  for (int i = 0; i < n; i++)
    same += dropout_keeps(7, dropout_stream(1, 3), uint64_t(i), 1u << 31) == dropout_keeps(7, dropout_stream(2, 3), uint64_t(i), 1u << 31);
  report.check(std::abs(double(same) / n - 0.5) < 0.01, "steps draw different masks");
}

}  // namespace

int main() {
  Report report;
  known_answers(report);
  sub_ranges(report);
  distributions(report);
  dropout_rate(report);
  return report.finish();
}
