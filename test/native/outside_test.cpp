// Pixels outside of a mask that calls leave out (runtime/outside.hpp): a product with the mask follows the output, or the inputs are 0
// there. A change of a byte of the value or of its mask ends that.
#include "runtime/outside.hpp"

#include <functional>

#include "test/native/checking.hpp"
#include "test/native/tape_builder.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr uint32_t SIDE = 32, CHANNELS = 16;

/// clamp → blocks, upsample → mask; conv2d x → y, multiply y by the mask in place, and more that a test adds.
struct Masked : TapeBuilder {
  uint32_t memory = buffer(64 * PAGE_BYTES), large = buffer(64 * PAGE_BYTES);
  uint32_t held = residency(memory, 0), held_large = residency(large, 64);
  uint32_t blocks = value(memory, 0, 1, 4), mask = value(memory, 4096, 1, SIDE), gate = value(memory, 8192, 1, SIDE);
  uint32_t x = value(large, 0, CHANNELS, SIDE), y = value(large, 1 << 16, CHANNELS, SIDE), z = value(large, 2 << 16, CHANNELS, SIDE);
  uint32_t weight = view(memory, 32768, {CHANNELS, CHANNELS, 3, 3}, false, DType::f32);
  uint32_t stats = view(memory, 16384, {4, CHANNELS}, false, DType::f32);

  uint32_t value(uint32_t of, uint64_t offset, uint32_t channels, uint32_t side) {
    return view(of, offset, {1, channels, side, side}, true, DType::f32);
  }
  uint32_t run(OpKind kind, std::vector<uint32_t> ins, std::vector<uint32_t> outs, std::vector<double> attributes = {}) {
    const uint32_t made = call(kind, std::move(ins), std::move(outs), std::move(attributes));
    emit(Tag::call, made);
    return made;
  }
  void start(OpKind last = OpKind::upsample) {
    emit(Tag::acquire, held);
    emit(Tag::acquire, held_large);
    run(OpKind::clamp, {blocks}, {blocks}, {0, 1});
    last == OpKind::upsample ? run(last, {blocks}, {mask}, {0, 4, 4, SIDE, SIDE}) : run(last, {gate}, {mask});
  }
  uint32_t convolve() { return run(OpKind::conv2d, {x, weight}, {y}, {1, 1, 1, 1, 1, 1, 1, 1, 1}); }
  uint32_t multiply() { return run(OpKind::multiply, {y, mask}, {y}, {2}); }
  std::vector<OutsideOf> found() const {
    Tape tape;
    static_cast<Sections&>(tape) = *this;
    tape.peak_pages = 128;
    return outside_of(tape);
  }
};

bool is(const OutsideOf& found, uint32_t mask, bool fills) { return found.mask == mask && found.fills == fills; }

void values_are_left_out() {
  Masked t;
  t.start();
  const uint32_t conv = t.convolve(), product = t.multiply(), stats = t.run(OpKind::bn_stats, {t.y}, {t.stats});
  const uint32_t copied = t.run(OpKind::relu, {t.y}, {t.z}, {0}), in_place = t.run(OpKind::relu, {t.y}, {t.y}, {0});
  const uint32_t sum = t.run(OpKind::add, {t.y, t.z}, {t.y}), beside = t.run(OpKind::add, {t.y, t.x}, {t.y});
  const std::vector<OutsideOf> found = t.found();
  CHECK(is(found[conv], t.mask, true));
  CHECK(is(found[product], t.mask, false));
  CHECK(found[stats].mask == t.mask);
  CHECK(is(found[copied], t.mask, true));
  CHECK(is(found[in_place], t.mask, false));
  CHECK(is(found[sum], t.mask, false));
  CHECK(found[beside].mask == NONE);
}

/// A gradient of a rectifier whose value is 0 outside is 0 there, and so need not be right before.
void rectifiers_shut() {
  for (const double slope : {0.0, 0.5}) {
    Masked t;
    t.start();
    t.convolve();
    t.multiply();
    t.run(OpKind::relu, {t.y}, {t.y}, {slope});
    const uint32_t conv = t.run(OpKind::conv2d_bwd_data, {t.x, t.weight}, {t.z}, {1, 1, 1, 1, 1, 1, 1, 1, 1});
    const uint32_t gradient = t.run(OpKind::relu_bwd, {t.y, t.z}, {t.z}, {slope});
    CHECK(t.found()[conv].mask == (slope == 0 ? t.mask : NONE));
    CHECK(t.found()[gradient].mask == (slope == 0 ? t.mask : NONE));
  }
}

/// `between`: a step between conv2d and the product.
void a_step_between(const std::function<void(Masked&)>& between) {
  Masked t;
  t.start();
  const uint32_t conv = t.convolve();
  between(t);
  t.multiply();
  CHECK(t.found()[conv].mask == NONE);
}

void a_step_behind(const std::function<void(Masked&)>& behind) {
  Masked t;
  t.start();
  t.convolve();
  t.multiply();
  behind(t);
  const uint32_t stats = t.run(OpKind::bn_stats, {t.y}, {t.stats});
  CHECK(t.found()[stats].mask == NONE);
}

void other_readers_and_writers() {
  a_step_between([](Masked& t) { t.run(OpKind::bn_stats, {t.y}, {t.stats}); });
  a_step_between([](Masked& t) { t.run(OpKind::add, {t.y, t.x}, {t.z}); });
  a_step_between([](Masked& t) { t.run(OpKind::upsample, {t.blocks}, {t.mask}, {0, 4, 4, SIDE, SIDE}); });
  a_step_behind([](Masked& t) { t.run(OpKind::relu, {t.x}, {t.y}, {0}); });
  a_step_behind([](Masked& t) { t.run(OpKind::sigmoid, {t.gate}, {t.mask}); });
  a_step_behind([](Masked& t) {
    t.emit(Tag::release, t.held);
    t.emit(Tag::acquire, t.held);
  });
  a_step_behind([](Masked& t) {
    t.emit(Tag::swap_in, t.transfer(t.held_large, t.large, 64 * PAGE_BYTES, Far::tier, NONE, 0));
    t.emit(Tag::wait, 0);
  });
}

void scratch_over_the_mask() {
  Masked t;
  t.start();
  const uint32_t conv = t.convolve();
  t.calls[conv].workspace_view = t.view(t.memory, 4096 + 64, {64}, false, DType::f32);
  t.multiply();
  CHECK(t.found()[conv].mask == NONE);
}

void gates_are_no_masks() {
  Masked t;
  t.start(OpKind::sigmoid);
  const uint32_t conv = t.convolve(), product = t.multiply();
  CHECK(t.found()[conv].mask == NONE);
  CHECK(t.found()[product].mask == NONE);
}

}  // namespace

int main() {
  test("values with 0 outside are left out there", values_are_left_out);
  test("a rectifier's gradient is 0 where its value is", rectifiers_shut);
  test("other readers and writers end it", other_readers_and_writers);
  test("scratch may lie over a mask that nobody reads later", scratch_over_the_mask);
  test("a gate is no mask", gates_are_no_masks);
  return finish();
}
