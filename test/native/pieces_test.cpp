// How the cuda device cuts its pool into handles: each mapping is a row of whole pieces, the pieces cover the pool once, and
// no cut is without a mapping that begins or ends there.
#include <random>

#include "cuda/pieces.hpp"
#include "test/native/checking.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

std::vector<uint64_t> bounds_of(uint64_t pages, const std::vector<PageMapping>& mappings) {
  return cuda::piece_bounds({pages, 0, mappings.data(), mappings.size()});
}

void by_hand() {
  CHECK((bounds_of(8, {}) == std::vector<uint64_t>{0, 8}));
  CHECK((bounds_of(8, {{0, 2, 3}, {3, 4, 4}}) == std::vector<uint64_t>{0, 2, 4, 5, 8}));
  CHECK((bounds_of(4, {{0, 0, 4}, {4, 0, 4}, {8, 0, 4}}) == std::vector<uint64_t>{0, 4}));  // one handle, mapped three times
}

void at_random() {
  std::mt19937 random(7);
  for (int round = 0; round < 300; round++) {
    const uint64_t pages = 1 + random() % 60;
    std::vector<PageMapping> mappings;
    for (uint64_t n = random() % 12, va = 0; n > 0; n--) {
      const uint64_t phys = random() % pages, count = 1 + random() % (pages - phys);
      mappings.push_back({va, phys, count});
      va += count;
    }
    const std::vector<uint64_t> bounds = bounds_of(pages, mappings);
    CHECK(bounds.front() == 0 && bounds.back() == pages && std::is_sorted(bounds.begin(), bounds.end()));
    CHECK(std::adjacent_find(bounds.begin(), bounds.end()) == bounds.end());
    const auto is_bound = [&](uint64_t page) { return std::binary_search(bounds.begin(), bounds.end(), page); };
    for (const PageMapping& m : mappings) CHECK(is_bound(m.phys) && is_bound(m.phys + m.count));
    for (const uint64_t b : bounds)
      CHECK(b == 0 || b == pages ||
            std::any_of(mappings.begin(), mappings.end(), [&](const PageMapping& m) { return m.phys == b || m.phys + m.count == b; }));
  }
}

}  // namespace

int main() {
  test("pieces by hand", by_hand);
  test("pieces of random mappings", at_random);
  return finish();
}
