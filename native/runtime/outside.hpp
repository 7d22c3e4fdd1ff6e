// Masks of a network: the pixels that its calls may leave out. In: a checked tape, whose calls have marks. Out: for each call, the pixels
// that are outside. Invariant: the blocks of a mask are kept beside the pages, one byte each. So they are known while values are swapped,
// copied or recomputed. Worked example: clamp makes mask 0 of 4 x 4 blocks; a conv2d of rows 16 to 31 of 64 leaves out pixels by blocks of
// row 1.
#pragma once
#include <vector>

#include "core/kernel.hpp"
#include "plan/tape.hpp"

namespace spillway {

class Masks {
 public:
  static bool are_in(const Tape& tape);
  explicit Masks(const Tape& tape);

  /// The pixels that a call may leave out. Only the kernels of the cpu device do so.
  Outside outside_of(uint32_t call) const;
  /// The view of the blocks that a call makes, or null.
  const ViewRecord* made_by(uint32_t call) const;
  /// Keeps the blocks that a call has made: the numbers of its view.
  void keep(uint32_t call, const std::byte* made);

 private:
  /// [B,H,W] of the whole mask: 0 outside.
  struct Mask {
    int64_t rows = 0, columns = 0;
    std::vector<uint8_t> blocks;
  };

  const Tape& tape_;
  std::vector<Mask> masks_;  // by number
};

}  // namespace spillway
