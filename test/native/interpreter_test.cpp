// serial
// The interpreter on hand-built tapes: real training on the reference device, every instruction on the null device,
// cancelling, metrics, state between runs.
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "test/native/runs.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

void swapping_changes_nothing() {
  for (const DType real : {DType::f64, DType::f32}) {
    Opened in_core = open_session(classifier(false, real)), swapped = open_session(classifier(true, real));
    const RunMetrics a = run(in_core, {.steps = 4, .seed = 3}), b = run(swapped, {.steps = 4, .seed = 3});
    CHECK(a.status.ok() && b.status.ok());
    CHECK(a.steps.size() == 4 && b.steps.size() == 4);
    for (int i = 0; i < 4; i++) CHECK(a.steps[i].loss == b.steps[i].loss);
    CHECK(bytes_of(in_core, "head.weight") == bytes_of(swapped, "head.weight"));
    CHECK(bytes_of(in_core, "head.bias") == bytes_of(swapped, "head.bias"));
    const uint64_t image = 2 * 3 * 300 * 400 * (real == DType::f64 ? 8 : 4);
    CHECK(b.steps[0].bytes_out == image && b.steps[0].bytes_in == image && b.steps[0].bytes_fed == image + 8);
    CHECK(a.steps[0].bytes_out == 0 && a.steps[0].bytes_in == 0);
  }
}

void training_lowers_the_loss() {
  Opened o = open_session(classifier(true), {}, 2);  // one batch, again and again
  const RunMetrics m = run(o, {.steps = 20});
  CHECK(m.steps.size() == 20);
  CHECK(m.steps[19].loss < m.steps[0].loss * 0.95);
  const double first = m.steps[0].loss;
  Opened again = open_session(classifier(true), {}, 2);
  CHECK(run(again, {.steps = 1}).steps[0].loss == first);
}

void peak_is_as_planned() {
  for (const bool swapped : {false, true}) {
    const TapeBuilder tape = classifier(swapped);
    Opened o = open_session(tape);
    const RunMetrics m = run(o, {.steps = 2});
    CHECK(m.arena_peak_bytes == tape.peak * PAGE_BYTES);
    CHECK(m.arena_file_bytes <= m.arena_peak_bytes);
    CHECK(m.arena_file_bytes > m.arena_peak_bytes / 2);
  }
}

void chunks_equal_one_run() {
  Opened whole = open_session(classifier(true)), parts = open_session(classifier(true));
  run(whole, {.steps = 5});
  run(parts, {.steps = 2});
  run(parts, {.steps = 3, .first_step = 3});
  CHECK(bytes_of(whole, "head.weight") == bytes_of(parts, "head.weight"));
}

/// A factor for each step: 0 leaves the weights alone, 1 is as if none were given, and a run in chunks is the run in one.
void rates_of_steps() {
  Opened o = open_session(classifier(true)), plain = open_session(classifier(true));
  const auto before = bytes_of(o, "head.weight");
  run(o, {.steps = 2, .rates = {0, 0}});
  CHECK(bytes_of(o, "head.weight") == before);
  run(o, {.steps = 3, .rates = {1, 1, 1}});
  run(plain, {.steps = 3});
  CHECK(bytes_of(o, "head.weight") == bytes_of(plain, "head.weight"));
  Opened whole = open_session(classifier(true)), parts = open_session(classifier(true));
  run(whole, {.steps = 4, .rates = {1, 0.5, 0, 0.25}});
  run(parts, {.steps = 1, .rates = {1}});
  run(parts, {.steps = 3, .first_step = 2, .rates = {0.5, 0, 0.25}});
  CHECK(bytes_of(whole, "head.weight") == bytes_of(parts, "head.weight"));
  CHECK(bytes_of(whole, "head.weight") != bytes_of(plain, "head.weight"));
}

void rates_are_checked() {
  Opened o = open_session(classifier(true));
  const auto refused = [&](RunOptions options) {
    options.source = o.source.get();
    return o.session->begin(options);
  };
  CHECK_SAYS(refused({.steps = 2, .rates = {1}}), "a run of 2 steps has 1 learning rate factors; give one per step");
  for (const double odd : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), -0.5})
    CHECK_SAYS(refused({.steps = 2, .first_step = 5, .rates = {1, odd}}), "the learning rate factor of step 6 is");
}

void searching_changes_nothing() {
  Opened searched = open_session(classifier(true)), plain = open_session(classifier(true));
  const RunMetrics found = run(searched, {.steps = 3, .search_from = 2});
  CHECK(!found.not_finite && !found.cancelled && found.steps.size() == 3);
  run(plain, {.steps = 3});
  CHECK(bytes_of(searched, "head.weight") == bytes_of(plain, "head.weight"));
}

void what_overflows_is_named() {
  Opened o = open_session(classifier(true, DType::f32));
  const RunMetrics r = run(o, {.steps = 3, .rates = {1e300, 1, 1}, .search_from = 1});
  CHECK(r.status.ok() && r.cancelled && r.torn && r.steps.empty());
  CHECK(r.not_finite && r.not_finite->step == 1 && r.not_finite->made && !std::isfinite(r.not_finite->value));
  const CallRecord& call = o.session->tape().calls[r.not_finite->call];
  CHECK(OpKind(call.kind) == OpKind::sgd && r.not_finite->operand < call.ins);
}

void init_by_name() {
  Opened a = open_session(classifier(true)), b = open_session(classifier(false));
  CHECK(bytes_of(a, "head.weight") == bytes_of(b, "head.weight"));
  const auto bytes = bytes_of(a, "head.weight");
  const auto* w = reinterpret_cast<const double*>(bytes.data());
  bool varied = false;
  for (int i = 0; i < 15; i++) {
    CHECK(w[i] > -0.5 && w[i] < 0.5);
    varied |= w[i] != w[0];
  }
  CHECK(varied);
  const auto bias = bytes_of(a, "head.bias");
  CHECK(*reinterpret_cast<const double*>(bias.data()) == 0.25);
  CHECK(a.session->init(a.session->find("head.weight"), 12).ok());
  CHECK(bytes_of(a, "head.weight") != bytes);
}

void timeline_and_progress() {
  Opened o = open_session(classifier(true));
  std::vector<Progress> seen;
  const RunMetrics m = run(o, {.steps = 3, .progress = [&](const Progress& p) { seen.push_back(p); }, .timeline = true});
  int calls = 0, outs = 0, ins = 0;
  for (const Span& s : m.timeline.spans) {
    CHECK(s.start >= 0 && s.end >= s.start && s.end <= m.steps[2].seconds);
    (s.stream == StreamId::compute ? calls : s.stream == StreamId::out ? outs : ins)++;
  }
  CHECK(calls == 8 && outs == 1 && ins == 3);
  uint64_t most = 0;
  for (const MemorySample& s : m.timeline.memory) most = std::max(most, s.pages);
  CHECK(most * PAGE_BYTES == m.arena_peak_bytes);
  int steps = 0;
  for (const Progress& p : seen)
    if (p.phase == Progress::Phase::step) CHECK(p.step == uint64_t(++steps) && p.loss == m.steps[steps - 1].loss);
  CHECK(steps == 3);
  double kernels = 0, kinds = 0;
  for (const StepMetrics& s : m.steps) kernels += s.kernel_seconds;
  for (const double s : m.seconds_by_kind) kinds += s;
  CHECK(kernels > 0 && std::abs(kernels - kinds) < 1e-9);
}

/// Transfers take their time beside any other work of the machine; the compute thread's share of waiting is less on a busy one.
void throttle_is_a_floor() {
  const TapeBuilder tape = classifier(true, DType::f32);    // 2.88 MB each way
  const double out = 2.88e6 / 5e6, in = 2 * 2.88e6 / 10e6;  // the relu; the image, then the relu
  const auto step = [&](Throttle throttle) {
    Opened o = open_session(tape, {.throttle = throttle});
    const RunMetrics m = run(o, {.steps = 1});
    CHECK(m.steps.size() == 1);
    return m.steps.at(0);
  };
  const StepMetrics slow_out = step({5e6, 0}), slow_in = step({0, 10e6});
  CHECK(slow_out.seconds >= out && slow_out.stall_memory_seconds >= out / 2);
  CHECK(slow_in.seconds >= in && slow_in.stall_data_seconds >= in / 2);
}

/// A step that ends at once is torn at any time; a step that the run waits for takes 0.7 s.
void cancel(Stop how, bool expect_torn) {
  Opened o = open_session(classifier(true, DType::f32), {.throttle = {expect_torn ? 1e5 : 4e6, 0}});  // 29 s a step, or 0.7
  RunOptions options{.steps = 1000, .source = o.source.get()};
  CHECK(o.session->begin(options).ok());
  CHECK_SAYS(o.session->begin(options), "a run is active");
  CHECK_SAYS(read_first(o), "a run is active");
  RunMetrics m;
  std::thread runner([&] { m = o.session->finish(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  o.session->stop(how);
  runner.join();
  CHECK(m.status.ok() && m.cancelled);
  CHECK(m.steps.size() < 20);
  CHECK(m.torn == expect_torn);
  CHECK(read_first(o).ok() == !expect_torn);
  if (expect_torn)
    CHECK_SAYS(o.session->begin(options), "open a new session");
  else
    CHECK(run(o, {.steps = 1, .first_step = 1 + m.steps.size()}).steps.size() == 1);
}

void refuses_wrong_use() {
  Opened o = open_session(classifier(true));
  CHECK_SAYS(o.session->begin({.steps = 1}), "data source");
  CHECK_SAYS(o.session->begin({.steps = 1, .first_step = 0, .source = o.source.get()}), "start at 1");
  Source empty(o.session->tape());
  CHECK_SAYS(o.session->begin({.steps = 1, .source = &empty}), "'image' is an input of the plan, but no data are given for it");
  CHECK_SAYS(o.session->size(o.session->find("image")).status(), "neither parameter nor state");
  CHECK(o.session->find("nobody") == NONE);
}

void kernels_have_the_last_word() {
  TapeBuilder t = classifier(true);
  t.views[0].dims[1] = t.views[0].extent[1] = 2;  // a weight for two channels, not three
  t.views[0].strides[0] = 2;
  CHECK_SAYS(Session::open(t.bytes(), {.device = find_device("ref")}).status(), "call 2 (linear): linear: w must be [O,C]");
}

/// Many buffers that show the same two pages in turned order: two mappings and a hole each, until the system has no more.
void too_many_mappings() {
  uint64_t limit = 0;
  CHECK(bool(std::ifstream("/proc/sys/vm/max_map_count") >> limit));
  TapeBuilder t;
  t.peak = t.budget = 2;
  t.residencies.push_back({2, 1, 0});
  for (uint32_t i = 0; i < limit / 3; i++) {
    const uint32_t b = t.buffer(3 * PAGE_BYTES);  // the third page is a hole
    t.mappings.push_back({b, 0, 1, 1, 0, 0});
    t.mappings.push_back({b, 1, 0, 1, 0, 0});
  }
  CHECK(read_tape(t.bytes()).ok());
  CHECK_SAYS(Session::open(t.bytes(), {.device = find_device("null")}).status(), "raise the limit: sysctl vm.max_map_count");
}

/// A large parameter is filled by several threads: the same values as by one.
void init_in_parallel() {
  TapeBuilder t;
  const uint64_t n = 3'000'001;
  const uint32_t b = t.buffer(4 * n);
  t.float_type = DType::f32;
  t.residency(b, 0, true);
  t.peak = t.budget = t.buffers[b].pages;
  t.binding(BindingRole::param, t.view(b, 0, {uint32_t(n)}, false, DType::f32), "w", Dist::normal, 1.0);
  std::vector<std::byte> values[2];
  for (const int threads : {1, 5}) {
    auto opened = Session::open(t.bytes(), {.device = find_device("null"), .threads = threads});
    CHECK(opened.ok() && opened.value()->init(0, 3).ok());
    values[threads > 1].resize(opened.value()->size(0).value());
    CHECK(opened.value()->read(0, values[threads > 1]).ok());
  }
  CHECK(values[0] == values[1]);
}

void null_device_runs_everything() {
  Opened o = open_session(with_workspace(classifier(true, DType::f32)), {.device = find_device("null")});
  const RunMetrics m = run(o, {.steps = 3});
  CHECK(m.status.ok() && m.steps.size() == 3);
  CHECK(m.steps[0].bytes_out == 2880000);
}

}  // namespace

int main() {
  test("swapping changes nothing", swapping_changes_nothing);
  test("training lowers the loss, and repeats", training_lowers_the_loss);
  test("the peak is as planned", peak_is_as_planned);
  test("runs in chunks equal one run", chunks_equal_one_run);
  test("a factor of the learning rate for each step reaches the updates", rates_of_steps);
  test("a factor for each step is due, and finite", rates_are_checked);
  test("a search for values that are not finite changes no state", searching_changes_nothing);
  test("an update that overflows is named", what_overflows_is_named);
  test("parameters start by name and seed only", init_by_name);
  test("timeline and progress", timeline_and_progress);
  test("a throttled link needs at least its time", throttle_is_a_floor);
  test("cancel at once", [] { cancel(Stop::at_once, true); });
  test("cancel after the step", [] { cancel(Stop::after_step, false); });
  test("wrong use is refused", refuses_wrong_use);
  test("kernels have the last word on shapes", kernels_have_the_last_word);
  test("more mappings than the system has", too_many_mappings);
  test("parameters start the same for any number of threads", init_in_parallel);
  test("the null device runs everything", null_device_runs_everything);
  return finish();
}
