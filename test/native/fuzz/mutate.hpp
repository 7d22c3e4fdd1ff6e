// One mutation of a tape: flips bits, overwrites words with awkward values, cuts the end off; `mend` makes size and
// checksum right again, so that the checks behind them are reached. The same random state gives the same mutation.
#pragma once
#include <algorithm>
#include <cstring>
#include <random>

#include "plan/reader.hpp"

namespace spillway::fuzz {

using Bytes = std::vector<std::byte>;

inline constexpr uint64_t AWKWARD[] = {0,          1,          2,           3,          7,          0x7fffffff, 0x80000000,
                                       0xfffffffe, 0xffffffff, 0x100000000, 1ull << 52, 1ull << 62, 1ull << 63, ~0ull};

inline void mutate_one(Bytes& tape, std::mt19937_64& random) {
  if (tape.empty()) return;
  // Headers and section tables are small: aim at them more often than their share.
  const size_t reach = random() % 4 == 0 ? std::min(tape.size(), sizeof(HeaderRecord)) : tape.size();
  const size_t at = random() % reach;
  switch (random() % 5) {
    case 0:
      tape[at] ^= std::byte(1u << random() % 8);
      break;
    case 1:
      tape[at] = std::byte(random());
      break;
    case 2:
    case 3: {
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

inline void mend(Bytes& tape) {
  if (tape.size() < CHECKED_FROM) return;
  const uint64_t size = tape.size(), sum = tape_checksum(tape);
  std::memcpy(tape.data() + offsetof(HeaderRecord, bytes), &size, sizeof size);
  std::memcpy(tape.data() + offsetof(HeaderRecord, checksum), &sum, sizeof sum);
}

inline bool sum_is_right(const Bytes& tape) {
  uint64_t sum = 0;
  if (tape.size() < CHECKED_FROM) return false;
  std::memcpy(&sum, tape.data() + offsetof(HeaderRecord, checksum), sizeof sum);
  return sum == tape_checksum(tape);
}

inline Bytes mutated(const Bytes& good, std::mt19937_64& random, bool mended) {
  Bytes tape = good;
  for (uint64_t k = 1 + random() % 3; k > 0; k--) mutate_one(tape, random);
  if (random() % 5 == 0) tape.resize(random() % (tape.size() + 1));
  if (mended) mend(tape);
  return tape;
}

}  // namespace spillway::fuzz
