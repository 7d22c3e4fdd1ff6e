// serial
// Exchanges between ranks beside computing: what the reader refuses while one is under way, and threads as ranks that train on both of
// their ways at once, to the same weights. In: the classifier's tape, whose gradients are exchanged beside a call that needs none of them.
#include "runtime/single_call.hpp"
#include "test/native/ranks.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

Status read_status(const TapeBuilder& t) {
  const Result<Tape> tape = read_tape(t.bytes());
  return tape.ok() ? Status{} : tape.status();
}

void refused() {
  struct Spoiled {
    const char* says;
    void (*spoil)(TapeBuilder&);
  };
  const Spoiled all[] = {
      {"is still exchanging these bytes with other ranks",
       [](TapeBuilder& t) { std::swap(t.instrs[find(t, Tag::wait, find(t, Tag::exchange))], t.instrs.back()); }},
      {"is still exchanging these bytes with other ranks",
       [](TapeBuilder& t) {
         const size_t x = find(t, Tag::exchange);
         t.instrs[x + 1].a = t.instrs[x + 3].a;
       }},
      {"it runs concurrently, but has a plain call instruction",
       [](TapeBuilder& t) {
         const size_t x = find(t, Tag::exchange);
         t.instrs.insert(t.instrs.begin() + ptrdiff_t(x), {Tag::call, t.instrs[x].a, 0, 0});
       }},
      {"belongs to an exchange; its wait has the wrong cause, data",
       [](TapeBuilder& t) { t.instrs[find(t, Tag::wait, find(t, Tag::exchange))].b = 1; }},
      {"it has an exchange instruction, but does not run concurrently", [](TapeBuilder& t) { t.instrs[find(t, Tag::exchange)].a = 0; }},
      {"is signalled twice", [](TapeBuilder& t) { t.instrs[find(t, Tag::exchange)].b = 0; }},
      {"is never waited for",
       [](TapeBuilder& t) {
         t.instrs.erase(t.instrs.begin() + ptrdiff_t(find(t, Tag::wait, find(t, Tag::exchange))));
         t.instrs.resize(t.instrs.size() - 2);
       }},
      {"outside its limits", [](TapeBuilder& t) { t.attrs[t.calls[t.instrs[find(t, Tag::exchange)].a].first_attr + 1] = 2; }},
      {"outputs", [](TapeBuilder& t) { t.calls[t.instrs[find(t, Tag::exchange)].a].outs = 1; }},
  };
  CHECK(read_status(shared_by(classifier(false), 2)).ok() && read_status(shared_by(classifier(false), 2, true)).ok());
  TapeBuilder met = shared_by(classifier(false), 2, true);
  const size_t begun = find(met, Tag::exchange);
  met.instrs[begun + 1].a = met.instrs[begun + 3].a;
  CHECK(contains(read_status(met).message, "is still exchanging these bytes with other ranks"));
  met = shared_by(classifier(false), 2, true);
  met.instrs[begun] = {Tag::call, met.instrs[begun].a, 0, 0};
  CHECK(contains(read_status(met).message, "has a wait before its signal"));
  for (const Spoiled& s : all) {
    TapeBuilder t = shared_by(classifier(false), 2);
    s.spoil(t);
    const Status status = read_status(t);
    check(contains(status.message, s.says), s.says, __FILE__, __LINE__, status.message);
  }
}

void ranks_agree() {
  const Device* const imitated = load_plugin(SPILLWAY_IMITATION).value();
  const uint64_t steps = std::getenv("SPILLWAY_FULL") ? 30 : 8;
  for (const uint32_t ranks : {2u, 3u}) {
    for (const Device* device : {static_cast<const Device*>(nullptr), imitated}) {
      const std::vector<Trained> a = train(ranks, steps, device), b = train(ranks, steps, device),
                                 early = train(ranks, steps, device, true);
      for (uint32_t r = 0; r < ranks; r++)
        CHECK(a[r].weight == a[0].weight && a[r].bias == a[0].bias && a[r].weight == b[r].weight && a[r].loss == b[r].loss &&
              early[r] == a[r]);
    }
  }
}

/// A rank that is cancelled before the others connect ends, with the thread that waits for them.
void ends_when_told() {
  auto opened = open_thread_ranks(2);
  std::vector<OwnCommunicator> all = std::move(opened).value();
  Opened o = open_session(shared_by(classifier(false), 2));
  RunOptions options{.steps = 5, .source = o.source.get(), .communicator = all[0].get()};
  CHECK(o.session->begin(options).ok());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    o.session->stop(Stop::at_once);
  });
  const RunMetrics m = o.session->finish();
  other.join();
  CHECK(m.steps.empty());
}

/// A missing rank is an error for the waiting one, in words; a later one gets the error, too.
void waits_no_longer() {
  auto opened = open_thread_ranks(2);
  std::vector<OwnCommunicator> all = std::move(opened).value();
  Opened o = open_session(shared_by(classifier(false), 2));
  const RunMetrics m = run(o, {.steps = 5, .communicator = all[0].get(), .patience = 0.05});
  CHECK(!m.status.ok() && contains(m.status.message, "rank 0 waited 0 s for other ranks: one of them hangs"));
  CHECK(all[0]->patience == 0);
  CHECK(contains(agree(*all[1], Accord::go_on).status().message, "another rank ended"));
}

/// All ranks time the same exchange at once, and have the same answer.
void measured_together() {
  const Device* const imitated = load_plugin(SPILLWAY_IMITATION).value();
  for (const Device* device : {find_device("ref"), imitated}) {
    auto opened = open_thread_ranks(3);
    std::vector<OwnCommunicator> all = std::move(opened).value();
    std::vector<MeasuredAmong> took(all.size());
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < all.size(); r++)
      threads.emplace_back([&, r] {
        const double attrs[] = {double(all.size())};
        const View v{.dtype = device == imitated ? DType::f32 : DType::f64,
                     .rank = 1,
                     .dims = {70'000, 1, 1, 1},
                     .strides = {1, 1, 1, 1},
                     .extent = {70'000, 1, 1, 1}};
        const StepContext step;
        const KernelCall call{
            .kind = uint32_t(OpKind::all_sum), .ins = &v, .n_ins = 1, .outs = &v, .n_outs = 1, .attrs = attrs, .n_attrs = 1, .step = &step};
        const Result<MeasuredAmong> measured = measure_among(*device, call, *all[r]);
        CHECK(measured.ok());
        if (measured.ok()) took[r] = measured.value();
      });
    for (std::thread& t : threads) t.join();
    for (const MeasuredAmong& m : took) CHECK(m.seconds > 0 && m.seconds == took[0].seconds && m.alone_seconds == took[0].alone_seconds);
  }
}

}  // namespace

int main() {
  test("values that are exchanged beside compute are used by no other op", refused);
  test("ranks on both of their ways at once, and on one of them, have the same weights, each time", ranks_agree);
  test("a waiting rank ends on request", ends_when_told);
  test("a rank whose wait times out reports it", waits_no_longer);
  test("ranks that time an exchange have the same answer", measured_together);
  return finish();
}
