// Pixels outside of a mask, by blocks. In: the blocks of a mask, a row of the pixels of a call. Out: the pixels that are outside.
// Invariant: a pixel belongs to the block that is nearest, as in `upsample`. Worked example: of 4 blocks, pixels 8 to 15 of a row of 32
// have block 1.
#pragma once
#include <cstdint>

namespace spillway {

/// Pixels of a call that a kernel may leave out: those of the blocks outside of a mask. A kernel that writes no activations leaves them out
/// of its sums.
struct Outside {
  /// `count` pixels from `first` on, of a value with `extent` pixels and a mask with `blocks` blocks.
  struct Axis {
    int64_t first = 0, count = 1, extent = 1, blocks = 1;
    int64_t block_of(int64_t pixel) const { return (first + pixel) * blocks / extent; }
    /// The first pixel of a block, counted from `first`.
    int64_t pixel_of(int64_t block) const { return (block * extent + blocks - 1) / blocks - first; }
  };
  const uint8_t* blocks = nullptr;  // of the first image: [H,W] of the whole mask, 0 outside; the other images follow. Null: no pixel
  Axis h, w;
  bool fills = false;  // the kernel writes 0 outside; otherwise 0 is there already, and stays
  bool full = false;   // all pixels are inside: none is left out
  bool empty = false;  // no pixel is inside
};

/// A row of pixels; rows are counted through all images. Without a mask, all pixels are inside.
class OutsideRow {
 public:
  OutsideRow(const Outside* outside, int64_t row) {
    if (!outside) return;
    columns_ = outside->w;
    const int64_t image = row / outside->h.count, block = outside->h.block_of(row % outside->h.count);
    blocks_ = outside->blocks + (image * outside->h.blocks + block) * columns_.blocks;
  }
  bool operator()(int64_t column) {
    if (!blocks_) return false;
    if (column < from_ || column >= to_) find(column);
    return is_outside_;
  }

 private:
  /// Pixels of one block follow each other: they are found once.
  void find(int64_t column) {
    const int64_t block = columns_.block_of(column);
    from_ = columns_.pixel_of(block);
    to_ = columns_.pixel_of(block + 1);
    is_outside_ = blocks_[block] == 0;
  }

  const uint8_t* blocks_ = nullptr;
  Outside::Axis columns_;
  int64_t from_ = 0, to_ = 0;
  bool is_outside_ = false;
};

}  // namespace spillway
