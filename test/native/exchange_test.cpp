// serial
// Exchanges between ranks beside computing: what the reader refuses while one is under way, and threads as ranks that train on both of their
// ways at once, to the same weights. In: the classifier's tape, whose gradients are exchanged beside a call that needs none of them.
#include <string>
#include <thread>

#include "test/native/runs.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

struct Places { size_t exchange, wait; };

size_t find(const TapeBuilder& t, Tag tag, size_t from = 0) {
  for (size_t i = from; i < t.instrs.size(); i++)
    if (t.instrs[i].tag == tag) return i;
  throw std::runtime_error("no such instruction");
}

/// Calls 0 to 7 of the classifier: the sixth makes the gradients, the others behind it read them. Between: all_sums of both beside a call that
/// sums the gradient of the output in its turn, on the ranks' first way.
TapeBuilder shared_by(uint32_t ranks) {
  TapeBuilder t = classifier(false);
  const uint64_t e = t.element(), offset = (t.buffers[0].bytes + 63) / 64 * 64;
  const auto operand = [&](uint32_t call, uint32_t i) { return t.operands[t.calls[call].first_operand + i]; };
  const uint32_t dlogits = operand(4, 2), dw = operand(5, 2), db = operand(5, 3);
  t.buffers[0].bytes = offset + 8192;
  const auto scratch = [&](uint64_t at) { return t.view(0, offset + at, {uint32_t(4096 / e)}, false, t.float_type); };
  const uint32_t bucket = t.call(OpKind::all_sums, {dw, db}, {dw, db}, {double(ranks), 1});
  t.calls[bucket].workspace_view = scratch(0);
  const ViewRecord& v = t.views[dlogits];
  const uint32_t flat = t.view(v.buffer, v.offset, {v.dims[0] * v.dims[1]}, false, t.float_type);
  const uint32_t beside = t.call(OpKind::all_sum, {flat}, {flat}, {double(ranks)});
  t.calls[beside].workspace_view = scratch(4096);
  const size_t sgd = t.instrs.size() - 2;
  const uint32_t event = t.events++;
  t.instrs.insert(t.instrs.begin() + ptrdiff_t(sgd), {{Tag::exchange, bucket, event, 0}, {Tag::call, beside, 0, 0}, {Tag::wait, event, 2, 0}});
  return t;
}

Status read_status(const TapeBuilder& t) {
  const Result<Tape> tape = read_tape(t.bytes());
  return tape.ok() ? Status{} : tape.status();
}

void refused() {
  struct Spoiled { const char* says; void (*spoil)(TapeBuilder&); };
  const Spoiled all[] = {
      {"is still exchanging these bytes with other ranks", [](TapeBuilder& t) { std::swap(t.instrs[find(t, Tag::wait, find(t, Tag::exchange))], t.instrs.back()); }},
      {"is still exchanging these bytes with other ranks", [](TapeBuilder& t) { const size_t x = find(t, Tag::exchange); t.instrs[x + 1].a = t.instrs[x + 3].a; }},
      {"it goes beside others, and is called in its turn", [](TapeBuilder& t) { const size_t x = find(t, Tag::exchange); t.instrs.insert(t.instrs.begin() + ptrdiff_t(x), {Tag::call, t.instrs[x].a, 0, 0}); }},
      {"is of an exchange, which is not waited for because of data", [](TapeBuilder& t) { t.instrs[find(t, Tag::wait, find(t, Tag::exchange))].b = 1; }},
      {"it goes beside nothing", [](TapeBuilder& t) { t.instrs[find(t, Tag::exchange)].a = 0; }},
      {"is signalled twice", [](TapeBuilder& t) { t.instrs[find(t, Tag::exchange)].b = 0; }},
      {"is never waited for", [](TapeBuilder& t) { t.instrs.erase(t.instrs.begin() + ptrdiff_t(find(t, Tag::wait, find(t, Tag::exchange)))); t.instrs.resize(t.instrs.size() - 2); }},
      {"out of its limits", [](TapeBuilder& t) { t.attrs[t.calls[t.instrs[find(t, Tag::exchange)].a].first_attr + 1] = 2; }},
      {"outputs", [](TapeBuilder& t) { t.calls[t.instrs[find(t, Tag::exchange)].a].outs = 1; }},
  };
  CHECK(read_status(shared_by(2)).ok());
  for (const Spoiled& s : all) {
    TapeBuilder t = shared_by(2);
    s.spoil(t);
    const Status status = read_status(t);
    check(contains(status.message, s.says), s.says, __FILE__, __LINE__, status.message);
  }
}

struct Trained { std::vector<std::byte> weight, bias; double loss; };

std::vector<Trained> train(uint32_t ranks, uint64_t steps) {
  auto opened = open_thread_ranks(ranks);
  CHECK(opened.ok());
  std::vector<OwnCommunicator> all = std::move(opened).value();
  std::vector<Trained> out(ranks);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; r++)
    threads.emplace_back([&, r] {
      Opened o = open_session(shared_by(ranks));
      const RunMetrics m = run(o, {.steps = steps, .timeline = true, .communicator = all[r].get()});
      check(m.status.ok() && m.steps.size() == steps, "a rank trains", __FILE__, __LINE__, m.status.message);
      if (m.steps.empty()) return;
      CHECK(m.sent_bytes > 0 && m.steps.back().beside_seconds > 0);
      size_t exchanged = 0;
      for (const Span& s : m.timeline.spans) exchanged += s.stream == StreamId::ranks;
      CHECK(exchanged == 1);
      out[r] = {bytes_of(o, "head.weight"), bytes_of(o, "head.bias"), m.steps.back().loss};
    });
  for (std::thread& t : threads) t.join();
  return out;
}

void ranks_agree() {
  for (const uint32_t ranks : {2u, 3u}) {
    const std::vector<Trained> a = train(ranks, 30), b = train(ranks, 30);
    for (uint32_t r = 0; r < ranks; r++) CHECK(a[r].weight == a[0].weight && a[r].bias == a[0].bias && a[r].weight == b[r].weight && a[r].loss == b[r].loss);
  }
}

/// Whoever is told to end while others never come ends, with the thread that waits for them.
void ends_when_told() {
  auto opened = open_thread_ranks(2);
  std::vector<OwnCommunicator> all = std::move(opened).value();
  Opened o = open_session(shared_by(2));
  RunOptions options{.steps = 5, .source = o.source.get(), .communicator = all[0].get()};
  CHECK(o.session->begin(options).ok());
  std::thread other([&] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); o.session->stop(Stop::at_once); });
  const RunMetrics m = o.session->finish();
  other.join();
  CHECK(m.steps.empty());
}

/// Who never comes is an error for who waits, in words; and whoever comes later hears of it.
void waits_no_longer() {
  auto opened = open_thread_ranks(2);
  std::vector<OwnCommunicator> all = std::move(opened).value();
  Opened o = open_session(shared_by(2));
  const RunMetrics m = run(o, {.steps = 5, .communicator = all[0].get(), .patience = 0.05});
  CHECK(!m.status.ok() && contains(m.status.message, "rank 0 has waited 0 s for other ranks: one of them hangs"));
  CHECK(all[0]->patience == 0);
  CHECK(contains(agree(*all[1], Accord::go_on).status().message, "another rank has ended"));
}

}  // namespace

int main() {
  test("what is exchanged beside computing is nobody else's", refused);
  test("ranks on both of their ways at once have the same weights, each time", ranks_agree);
  test("a rank that waits for others ends when it is told to", ends_when_told);
  test("a rank that waits in vain says so", waits_no_longer);
  return finish();
}
