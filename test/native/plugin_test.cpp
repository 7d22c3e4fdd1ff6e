// serial
// The runtime on a device behind the plugin interface that is asynchronous: lanes, events, replayed graphs, the lower tier pinned, on disk
// and in part on both. Everything equals the same kernels in strict order, bit for bit; every call of the device that can fail does so
// once.
#include <dlfcn.h>

#include <filesystem>

#include "runtime/bandwidth.hpp"
#include "runtime/cold_measure.hpp"
#include "runtime/feeder.hpp"
#include "runtime/host_device.hpp"
#include "runtime/single_call.hpp"
#include "test/native/imitation/kernels.hpp"
#include "test/native/runs.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

const Device* imitation() {
  static const Result<const Device*> loaded = load_plugin(SPILLWAY_IMITATION);
  if (!loaded.ok()) throw std::runtime_error(loaded.status().message);
  return loaded.value();
}

void fail_at(int64_t nth) {
  static void* library = ::dlopen(SPILLWAY_IMITATION, RTLD_NOW | RTLD_NOLOAD);
  static const auto fail = reinterpret_cast<void (*)(int64_t)>(::dlsym(library, "spillway_imitation_fail"));
  fail(nth);
}

bool fails_yet() {
  static void* library = ::dlopen(SPILLWAY_IMITATION, RTLD_NOW | RTLD_NOLOAD);
  static const auto yet = reinterpret_cast<bool (*)()>(::dlsym(library, "spillway_imitation_fails_yet"));
  return yet();
}

uint64_t gone_together() {
  static void* library = ::dlopen(SPILLWAY_IMITATION, RTLD_NOW | RTLD_NOLOAD);
  static const auto count = reinterpret_cast<uint64_t (*)()>(::dlsym(library, "spillway_imitation_together"));
  return count();
}

/// The same kernels, one after the other.
constexpr Device ON_THE_HOST = host_device<imitation::kernel>("imitation on the host", DType::f32, {});

struct Directory {
  std::string path = "/tmp/spillway-plugin-XXXXXX";
  Directory() {
    if (!::mkdtemp(path.data())) throw std::runtime_error("no directory");
  }
  ~Directory() { std::filesystem::remove_all(path); }
};

TapeBuilder network(bool swapped, ClassifierShape shape = {.batch = 2, .channels = 3, .height = 60, .width = 80, .classes = 5}) {
  return with_workspace(classifier(swapped, DType::f32, shape));
}
constexpr uint64_t STEPS = 7;

struct Trained {
  std::vector<std::byte> weights;
  RunMetrics run;
};

Trained train(const TapeBuilder& tape, SessionOptions options, bool timeline = false) {
  Opened o = open_session(tape, options, 5);
  Trained t{{}, run(o, {.steps = STEPS, .seed = 3, .timeline = timeline})};
  if (!t.run.status.ok()) throw std::runtime_error(t.run.status.message);
  t.weights = bytes_of(o, "head.weight");
  return t;
}

void equals_reference(const TapeBuilder& tape, SessionOptions options, bool timeline = false) {
  const Trained expected = train(tape, {.device = &ON_THE_HOST}), got = train(tape, options, timeline);
  CHECK(got.weights == expected.weights);
  CHECK(got.run.steps.size() == STEPS);
  for (size_t i = 0; i < got.run.steps.size(); i++) {
    const StepMetrics &a = expected.run.steps[i], &b = got.run.steps[i];
    CHECK(a.loss == b.loss);
    CHECK(a.bytes_out == b.bytes_out && a.bytes_in == b.bytes_in && a.bytes_fed == b.bytes_fed);
  }
  CHECK(got.run.arena_peak_bytes == expected.run.arena_peak_bytes);
}

void in_core_and_swapped() {
  equals_reference(network(false), {.device = imitation()});
  equals_reference(network(true), {.device = imitation()});
  equals_reference(network(true, {}), {.device = imitation()});  // three pages for each value
}

void spilled_to_disk() {
  const Directory d;
  equals_reference(network(true), {.device = imitation(), .spill_directory = d.path, .host_bytes = 0});
  equals_reference(network(true, {}), {.device = imitation(), .spill_directory = d.path, .host_bytes = 4096});
}

/// Two slots of the tier: the first is pinned, the second on disk.
void partly_pinned() {
  TapeBuilder t = network(true);
  const uint64_t image = t.transfers[2].bytes, second = (image + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES;
  t.tier_bytes = second + image;
  t.transfers.push_back(t.transfers[2]);
  t.transfers.back().far_offset = second;
  // The relu goes out twice, to both slots, and comes back from the second.
  t.transfers[3].far_offset = second;
  const auto out = std::find_if(t.instrs.begin(), t.instrs.end(), [](const InstrRecord& i) { return i.tag == Tag::swap_out; });
  const uint32_t event = t.events++;
  const InstrRecord again{Tag::swap_out, uint32_t(t.transfers.size() - 1), event, 0}, wait{Tag::wait, event, 0, 0};
  t.instrs.insert(out + 1, {again, wait});
  const Directory d;
  for (const uint64_t pinned : {uint64_t(0), image, second + image})
    equals_reference(t, {.device = imitation(), .spill_directory = d.path, .host_bytes = pinned});
}

void throttled() { equals_reference(network(true), {.device = imitation(), .throttle = {40e6, 40e6}}); }

/// The updates of weight and bias: once for each of the two graphs, since the first steps go call by call.
void updates_go_together() {
  const TapeBuilder tape = network(true);
  const auto groups = [](const TapeBuilder& t) { return calls_together(read_tape(t.bytes()).value(), *imitation()); };
  CHECK(groups(tape).size() == 1 && groups(tape)[0].calls == std::vector<uint32_t>({6, 7}));
  CHECK(calls_together(read_tape(tape.bytes()).value(), ON_THE_HOST).empty());
  TapeBuilder other_rate = tape;
  other_rate.attrs[other_rate.calls[7].first_attr] = 0.25;
  CHECK(groups(other_rate).empty());
  TapeBuilder same_bytes = tape;  // the second one's gradient is what the first one writes
  same_bytes.views[same_bytes.operands[same_bytes.calls[7].first_operand + 1]].offset =
      same_bytes.views[same_bytes.operands[same_bytes.calls[6].first_operand]].offset;
  CHECK(groups(same_bytes).empty());
  TapeBuilder apart = tape;
  std::swap(apart.instrs[apart.instrs.size() - 2], apart.instrs[apart.instrs.size() - 3]);
  CHECK(groups(apart).empty());

  const uint64_t before = gone_together();
  train(tape, {.device = imitation()});
  CHECK(gone_together() == before + 4);
  Opened o = open_session(tape, {.device = imitation()});
  const RunMetrics m = run(o, {.steps = 1});
  CHECK(m.device_memory && m.device_memory->pool_bytes == m.arena_file_bytes && m.device_memory->of_process);
}

/// A library's choices: the same bits, each with its own scratch; one that there is not is refused when the session opens.
void library_choices() {
  const auto with = [](uint32_t way) {
    TapeBuilder t = network(true);
    for (CallRecord& c : t.calls)
      if (OpKind(c.kind) == OpKind::linear) c.way = way;
    return t;
  };
  const auto expected = train(network(true), {.device = &ON_THE_HOST}).weights;
  for (const uint32_t way : {1, 2, 3}) CHECK(train(with(way), {.device = imitation()}).weights == expected);
  CHECK_SAYS(Session::open(with(4).bytes(), {.device = imitation()}).status(), "the device has no such way to run it");
}

void timeline() {
  Opened o = open_session(network(true), {.device = imitation()});
  const RunMetrics m = run(o, {.steps = 4, .timeline = true});
  int calls = 0, outs = 0, ins = 0;
  for (const Span& s : m.timeline.spans) {
    CHECK(s.start >= 0 && s.end >= s.start && s.end <= m.steps[3].seconds);
    (s.stream == StreamId::compute ? calls : s.stream == StreamId::out ? outs : ins)++;
  }
  CHECK(calls == 8 && outs == 1 && ins == 3);
  CHECK(m.steps[0].kernel_seconds > 0 && m.steps[3].kernel_seconds > 0);
  CHECK(m.steps[0].stall_memory_seconds > 0);
  equals_reference(network(true), {.device = imitation()}, true);
}

void runs_go_on() {
  Opened whole = open_session(network(true), {.device = imitation()});
  Opened parts = open_session(network(true), {.device = imitation()});
  run(whole, {.steps = 6});
  run(parts, {.steps = 2});
  run(parts, {.steps = 1, .first_step = 3});
  run(parts, {.steps = 3, .first_step = 4});
  CHECK(bytes_of(whole, "head.weight") == bytes_of(parts, "head.weight"));
  const auto before = bytes_of(parts, "head.weight");
  run(parts, {.steps = 2, .first_step = 7, .rates = {0, 0}});
  CHECK(bytes_of(parts, "head.weight") == before);
  const std::vector<double> rates = {1, 0.5, 0, 0.25, 2, 1};
  run(whole, {.steps = 6, .rates = rates});
  for (uint64_t n = 0; n < 6; n++) run(parts, {.steps = 1, .first_step = n + 1, .rates = {rates[n]}});
  CHECK(bytes_of(whole, "head.weight") == bytes_of(parts, "head.weight"));
}

/// A buffer with the same samples is not filled again: an untouched mark tells.
void batches_stay() {
  const Tape tape = read_tape(network(false).bytes()).value();
  const auto first_fed =
      std::find_if(tape.transfers.begin(), tape.transfers.end(), [](const TransferRecord& one) { return one.from_source(); });
  const auto transfer = uint32_t(first_fed - tape.transfers.begin());
  const TransferRecord& t = tape.transfers[transfer];
  for (const uint64_t samples : {uint64_t(2), uint64_t(3)}) {  // two are one batch
    OpenDevice device = OpenDevice::open(*imitation(), {}).value();
    Source source(tape), beside(tape);
    for (uint32_t i = 0; i < tape.bindings.size(); i++)
      for (Source* s : {&source, &beside})
        if (tape.bindings[i].fed()) s->set_synthetic(i, {.seed = 5, .samples = samples, .classes = 5});
    std::unique_ptr<Feeder> feeder = Feeder::open(tape, device).value();
    const auto as_drawn = [&](uint64_t step) {
      std::vector<std::byte> expected(t.bytes);
      CHECK(beside.read(t.binding, step, t.far_offset, expected).ok());
      return std::equal(expected.begin(), expected.end(), feeder->at(transfer, step));
    };
    feeder->begin(&source, 1, 5);
    for (uint64_t step = 1; step <= 3; step++) CHECK(feeder->ready(step).ok() && as_drawn(step));
    std::byte* const mark = const_cast<std::byte*>(feeder->at(transfer, 3));
    *mark ^= std::byte(0xff);
    CHECK(feeder->ready(4).ok() && as_drawn(4));
    CHECK(feeder->ready(5).ok() && as_drawn(5) == (samples == 3));
    feeder->end();
    feeder->begin(&source, 7, 7);
    CHECK(feeder->ready(7).ok() && as_drawn(7));
  }
}

void cancelled_between_graphs() {
  Opened o = open_session(network(true), {.device = imitation()});
  RunOptions options{.steps = 1'000'000, .source = o.source.get()};
  RunMetrics m;
  // A thread may take long to begin on a busy machine.
  for (int64_t wait = 60; m.steps.empty() && wait < 100'000; wait *= 10) {
    CHECK(o.session->begin(options).ok());
    std::thread runner([&] { m = o.session->finish(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(wait));
    o.session->stop(Stop::after_step);
    runner.join();
  }
  CHECK(m.status.ok() && m.cancelled && !m.torn && !m.steps.empty());
  CHECK(run(o, {.steps = 1, .first_step = 1 + m.steps.size()}).steps.size() == 1);
}

/// For every failing call of the device: words, no crash, no hang, or (for a graph that cannot be kept) the same bits; and the next session
/// works.
void every_failure() {
  const Directory d;
  const TapeBuilder tape = network(true);
  const std::vector<std::byte> expected = train(tape, {.device = imitation()}).weights;
  for (const bool disk : {false, true}) {
    const SessionOptions options{.device = imitation(), .spill_directory = disk ? d.path : "", .host_bytes = disk ? 0 : ~uint64_t(0)};
    int64_t nth = 1, failed_runs = 0, refused = 0;
    for (bool done = false; !done; nth++) {
      fail_at(nth);
      try {
        CHECK(train(tape, options).weights == expected);
        done = fails_yet();
      } catch (const std::exception& e) {
        CHECK(contains(e.what(), "imitated failure"));
        contains(e.what(), "instruction") ? failed_runs++ : refused++;
      }
    }
    fail_at(0);
    CHECK(nth > 100 && failed_runs > 10 && refused > 10);
    CHECK(train(tape, options).weights == expected);
  }
}

void single_calls() {
  std::vector<float> x(24), y(24, -7);
  for (size_t i = 0; i < x.size(); i++) x[i] = float(i) - 12;
  View in{.data = x.data(), .rank = 4, .dims = {1, 2, 3, 4}, .strides = {24, 1, 8, 2}, .extent = {1, 2, 3, 4}}, out = in;
  out.data = y.data();
  const double slope = 0;
  const StepContext step;
  KernelCall call{
      .kind = uint32_t(OpKind::relu), .ins = &in, .n_ins = 1, .outs = &out, .n_outs = 1, .attrs = &slope, .n_attrs = 1, .step = &step};
  const auto ways = single_ways(*imitation(), call, MOST_WAYS);
  CHECK(ways.ok() && ways.value().size() == 1 && ways.value()[0].workspace_bytes == 0 && ways.value()[0].repeats);
  CHECK(single_run(*imitation(), call).ok());
  for (size_t i = 0; i < x.size(); i++) CHECK(y[i] == std::max(0.0f, x[i]));
  out.data = x.data();  // in place
  CHECK(single_run(*imitation(), call).ok());
  CHECK(x == y);
  const Result<Measured> measured = measure_call(*imitation(), call);
  CHECK(measured.ok() && measured.value().seconds > 0 && measured.value().quiet);
}

void link_is_measured() {
  const Result<Bandwidth> b = measure_device_bandwidth(*imitation());
  CHECK(b.ok() && b.value().out_bytes_per_second > 1e6 && b.value().in_bytes_per_second > 1e6);
}

void plugins_that_are_none() {
  CHECK_SAYS(load_plugin("/nowhere/at/all.so").status(), "cannot load /nowhere/at/all.so");
  ::setenv("SPILLWAY_CUDA", "/nowhere/spillway_cuda.so", 1);
  CHECK_SAYS(load_device("cuda").status(), "the cuda device is not built (/nowhere/spillway_cuda.so is missing)");
  ::unsetenv("SPILLWAY_CUDA");
  CHECK_SAYS(load_device("abacus").status(), "there is no device 'abacus'");
  CHECK(load_device("ref").ok());
}

}  // namespace

int main() {
  test("in-core and swapped equal the reference", in_core_and_swapped);
  test("spilled to disk", spilled_to_disk);
  test("partly pinned, the rest on disk", partly_pinned);
  test("over a throttled link", throttled);
  test("adjacent updates run together", updates_go_together);
  test("a library's choices", library_choices);
  test("the timeline of an asynchronous step", timeline);
  test("a run continues after the last one", runs_go_on);
  test("a batch that every step sees is made once", batches_stay);
  test("cancelled between graphs", cancelled_between_graphs);
  test("every call of the device fails once", every_failure);
  test("single calls", single_calls);
  test("the link is measured", link_is_measured);
  test("plugins that are none", plugins_that_are_none);
  return finish();
}
