// Masks of a network (runtime/outside.hpp): blocks are kept beside the pages, and each call has the pixels of its tile that are outside.
#include "runtime/outside.hpp"

#include <random>

#include "ops/upsample.hpp"
#include "test/native/checking.hpp"
#include "test/native/tape_builder.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr uint32_t IMAGES = 2, ROWS = 5, COLUMNS = 7;

/// clamp makes mask 0 in two tiles of rows; a test adds calls that leave out its pixels.
struct Masked : TapeBuilder {
  std::vector<float> numbers = std::vector<float>(IMAGES * ROWS * COLUMNS);
  uint32_t memory = buffer(64 * PAGE_BYTES);
  uint32_t upper = made(0, 2), lower = made(2, ROWS);

  uint32_t made(uint32_t from, uint32_t to) {
    const uint32_t tile = box(1, ROWS, COLUMNS, from, to, 0, COLUMNS), made = call(OpKind::clamp, {tile}, {tile}, {0, 1});
    calls[made].mask = 0;
    calls[made].flags = 2;
    return made;
  }
  /// A box of some rows and columns of a value with these channels and sizes.
  uint32_t box(uint32_t channels, uint32_t rows, uint32_t columns, uint32_t top, uint32_t bottom, uint32_t left, uint32_t right) {
    const uint32_t made = view(memory, 0, {IMAGES, channels, bottom - top, right - left}, true, DType::f32);
    ViewRecord& v = views[made];
    v.origin[2] = top;
    v.origin[3] = left;
    v.extent[2] = rows;
    v.extent[3] = columns;
    return made;
  }
  uint32_t leaves_out(uint32_t of, bool fills) {
    const uint32_t made = call(OpKind::relu, {of}, {of}, {0});
    calls[made].mask = 0;
    calls[made].masked = 1;
    calls[made].flags = fills ? 4 : 0;
    return made;
  }
  Tape tape() const {
    Tape tape;
    static_cast<Sections&>(tape) = *this;
    return tape;
  }
  /// The numbers of a tile of the mask.
  std::vector<float> of_tile(uint32_t from, uint32_t to) const {
    std::vector<float> tile;
    for (uint32_t b = 0; b < IMAGES; b++)
      tile.insert(tile.end(), numbers.begin() + (b * ROWS + from) * COLUMNS, numbers.begin() + (b * ROWS + to) * COLUMNS);
    return tile;
  }
  void keep(Masks& masks) const {
    for (const auto& [call, from, to] : {std::array{upper, 0u, 2u}, std::array{lower, 2u, ROWS}})
      masks.keep(call, reinterpret_cast<const std::byte*>(of_tile(from, to).data()));
  }
};

/// Pixels of tiles belong to the blocks that `upsample` gives them.
void pixels_have_the_nearest_block() {
  std::mt19937 random(7);
  for (const auto& [rows, columns] : {std::pair{5u, 7u}, std::pair{40u, 56u}, std::pair{23u, 31u}, std::pair{3u, 4u}}) {
    Masked t;
    for (float& number : t.numbers) number = random() % 2 ? 0.0f : 0.25f;
    const uint32_t tile = t.box(3, rows, columns, rows / 3, rows, columns / 4, columns);
    const uint32_t call = t.leaves_out(tile, true);
    const Tape tape = t.tape();
    Masks masks(tape);
    t.keep(masks);
    const Outside found = masks.outside_of(call);
    CHECK(found.fills);
    const ops::Resampling h{0, ROWS, rows}, w{0, COLUMNS, columns};
    const ViewRecord& v = tape.views[tile];
    for (int64_t row = 0; row < int64_t(IMAGES) * v.dims[2]; row++) {
      OutsideRow is_outside(&found, row);
      for (const bool forward : {true, false})
        for (int64_t i = 0; i < v.dims[3]; i++) {
          const int64_t column = forward ? i : v.dims[3] - 1 - i;
          const int64_t y = h.at(v.origin[2] + row % v.dims[2]).first, x = w.at(v.origin[3] + column).first;
          CHECK(is_outside(column) == (t.numbers[size_t((row / v.dims[2] * ROWS + y) * COLUMNS + x)] == 0));
        }
    }
  }
}

void tiles_are_full_or_empty() {
  Masked t;
  for (uint32_t b = 0; b < IMAGES; b++)
    for (uint32_t i = 0; i < 2 * COLUMNS; i++) t.numbers[b * ROWS * COLUMNS + i] = 1;
  const uint32_t above = t.leaves_out(t.box(8, 50, 70, 0, 20, 0, 70), true), below = t.leaves_out(t.box(8, 50, 70, 20, 50, 3, 60), false),
                 between = t.leaves_out(t.box(8, 50, 70, 19, 21, 0, 70), true), other = t.call(OpKind::relu, {0}, {0}, {0});
  const Tape tape = t.tape();
  Masks masks(tape);
  // Blocks that no call has made yet count as inside.
  CHECK(masks.outside_of(below).full);
  t.keep(masks);
  CHECK(masks.outside_of(above).full && !masks.outside_of(above).empty);
  CHECK(masks.outside_of(below).empty && !masks.outside_of(below).full && !masks.outside_of(below).fills);
  CHECK(!masks.outside_of(between).full && !masks.outside_of(between).empty);
  for (const uint32_t call : {t.upper, other}) CHECK(!masks.outside_of(call).blocks);
  CHECK(masks.made_by(t.upper) && !masks.made_by(above));
}

}  // namespace

int main() {
  test("pixels belong to the nearest block", pixels_have_the_nearest_block);
  test("tiles are full or empty", tiles_are_full_or_empty);
  return finish();
}
