// Mutates tapes and reads them: fuzz_tape N SEED FILE... In: good tapes. Out: counts; exit code 1 when a tape with a wrong
// checksum passed. Every second mutation has its checksum mended (see mutate.hpp). The same N and seed repeat exactly.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "test/native/fuzz/mutate.hpp"

namespace {

using namespace spillway;
using fuzz::Bytes;

/// The message without its numbers, to count how many checks were reached.
std::string shape_of(const std::string& message) {
  std::string shape;
  for (const char c : message)
    if (c < '0' || c > '9') shape += c;
  return shape;
}

Bytes read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  Bytes bytes(chars.size());
  if (!chars.empty()) std::memcpy(bytes.data(), chars.data(), chars.size());
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: fuzz_tape N SEED FILE...\n"), 2;
  const uint64_t n = std::strtoull(argv[1], nullptr, 10);
  std::mt19937_64 random(std::strtoull(argv[2], nullptr, 10));
  std::vector<Bytes> seeds;
  for (int i = 3; i < argc; i++) {
    seeds.push_back(read_file(argv[i]));
    if (const auto tape = read_tape(seeds.back()); !tape.ok())
      return std::fprintf(stderr, "%s: %s\n", argv[i], tape.status().message.c_str()), 2;
  }
  uint64_t refused = 0, passed = 0, damaged_passed = 0;
  std::map<std::string, uint64_t> reasons;
  for (uint64_t i = 0; i < n; i++) {
    const Bytes& good = seeds[random() % seeds.size()];
    const Bytes tape(fuzz::mutated(good, random, i % 2 == 1));
    const bool right = fuzz::sum_is_right(tape);
    const Result<Tape> read = read_tape(Bytes(tape));  // in an allocation of its own size: a read past its end is caught
    (read.ok() ? passed : refused)++;
    if (read.ok() && !right) damaged_passed++;
    if (!read.ok()) reasons[shape_of(read.status().message)]++;
  }
  std::printf("%llu mutated tapes: %llu refused for %zu different reasons, %llu still valid, %llu with a wrong checksum passed\n",
              (unsigned long long)n, (unsigned long long)refused, reasons.size(), (unsigned long long)passed,
              (unsigned long long)damaged_passed);
  return damaged_passed == 0 ? 0 : 1;
}
