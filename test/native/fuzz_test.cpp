// Mutated tapes never crash the reader, and those that still pass can be opened, and either run or are refused.
// (fuzz/fuzz_tape does the same at length, on tapes of real plans.)
#include "runtime/session.hpp"
#include "test/native/checking.hpp"
#include "test/native/fuzz/mutate.hpp"
#include "test/native/tape_builder.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

/// It always ends with a status; returns true if a step ran to its end.
bool run_on(const char* device, const std::vector<std::byte>& bytes) {
  auto opened = Session::open(bytes, {.device = find_device(device), .threads = 1});
  if (!opened.ok()) return false;
  const std::unique_ptr<Session> session = std::move(opened).value();
  Source source(session->tape());
  for (uint32_t i = 0; i < session->tape().bindings.size(); i++) {
    const BindingRecord& b = session->tape().bindings[i];
    if (b.fed()) source.set_synthetic(i, {.seed = 1, .samples = 2, .classes = 5});
    if (b.persistent() && !session->init(i, 1).ok()) return false;
  }
  return session->begin({.steps = 1, .source = &source}).ok() && session->finish().status.ok();
}

void fuzz_many(uint64_t n, uint64_t seed) {
  const ClassifierShape small{1, 3, 40, 50, 5};
  const std::vector<std::byte> seeds[] = {classifier(false, DType::f32, small).bytes(), classifier(true, DType::f64, small).bytes()};
  std::mt19937_64 random(seed);
  uint64_t refused = 0, ran = 0;
  for (uint64_t i = 0; i < n; i++) {
    const std::vector<std::byte> tape = fuzz::mutated(seeds[i / 2 % 2], random, i % 2 == 1);
    const Result<Tape> read = read_tape(tape);
    if (read.ok()) CHECK(fuzz::sum_is_right(tape));
    if (!read.ok())
      refused++;
    else if (run_on(i % 4 < 2 ? "ref" : "null", tape))
      ran++;
  }
  CHECK(refused > n / 2);
  CHECK(ran > 0);
}

}  // namespace

int main() {
  test("20 000 mutated tapes", [] { fuzz_many(20'000, 7); });
  return finish();
}
