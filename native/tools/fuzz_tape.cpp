// Mutates tapes and reads them: fuzz_tape N SEED FILE... In: good tapes. Out: counts; exit code 1 when a tape with a wrong
// checksum passed. Each mutation flips bits, overwrites words with awkward values, or cuts the end off; every second one
// has its size and checksum made right again, so that the checks behind them are reached. The same N and seed repeat exactly.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "plan/reader.hpp"

namespace {

using namespace spillway;
using Bytes = std::vector<std::byte>;

constexpr uint64_t AWKWARD[] = {0, 1, 2, 3, 7, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x100000000, 1ull << 52, 1ull << 62, 1ull << 63, ~0ull};

void mutate_one(Bytes& tape, std::mt19937_64& random) {
  if (tape.empty()) return;
  // Headers and section tables are small: aim at them more often than their share.
  const size_t reach = random() % 4 == 0 ? std::min<size_t>(tape.size(), 256) : tape.size();
  const size_t at = random() % reach;
  switch (random() % 5) {
    case 0: tape[at] ^= std::byte(1u << random() % 8); break;
    case 1: tape[at] = std::byte(random()); break;
    case 2: case 3: {
      const size_t width = random() % 2 ? 4 : 8, start = at / width * width;
      const uint64_t word = AWKWARD[random() % std::size(AWKWARD)];
      if (start + width <= tape.size()) std::memcpy(tape.data() + start, &word, width);
      break;
    }
    case 4: {
      const size_t width = 4, start = at / width * width;
      uint32_t word = 0;
      if (start + width > tape.size()) break;
      std::memcpy(&word, tape.data() + start, width);
      word += uint32_t(random() % 5) - 2;
      std::memcpy(tape.data() + start, &word, width);
      break;
    }
  }
}

void mend(Bytes& tape) {
  if (tape.size() < 32) return;
  const uint64_t size = tape.size(), sum = tape_checksum(tape);
  std::memcpy(tape.data() + 16, &size, 8);
  std::memcpy(tape.data() + 24, &sum, 8);
}

bool sum_is_right(const Bytes& tape) {
  uint64_t sum = 0;
  if (tape.size() < 32) return false;
  std::memcpy(&sum, tape.data() + 24, 8);
  return sum == tape_checksum(tape);
}

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
    if (const auto tape = read_tape(seeds.back()); !tape.ok()) return std::fprintf(stderr, "%s: %s\n", argv[i], tape.status().message.c_str()), 2;
  }
  uint64_t refused = 0, passed = 0, damaged_passed = 0;
  std::map<std::string, uint64_t> reasons;
  for (uint64_t i = 0; i < n; i++) {
    Bytes tape = seeds[random() % seeds.size()];
    for (uint64_t k = 1 + random() % 3; k > 0; k--) mutate_one(tape, random);
    if (random() % 5 == 0) tape.resize(random() % (tape.size() + 1));
    if (i % 2 == 1) mend(tape);
    const bool right = sum_is_right(tape);
    const Result<Tape> read = read_tape(Bytes(tape));  // a copy of its own: a read past its end is caught
    (read.ok() ? passed : refused)++;
    if (read.ok() && !right) damaged_passed++;
    if (!read.ok()) reasons[shape_of(read.status().message)]++;
  }
  std::printf("%llu mutated tapes: %llu refused for %zu different reasons, %llu still valid, %llu with a wrong checksum passed\n", (unsigned long long)n,
              (unsigned long long)refused, reasons.size(), (unsigned long long)passed, (unsigned long long)damaged_passed);
  return damaged_passed == 0 ? 0 : 1;
}
