// serial
// Copy streams: order, tickets, failure, abandoning, throttle; and both streams beside a computing thread. Run under TSan.
#include <atomic>
#include <numeric>

#include "runtime/streams.hpp"
#include "test/native/checking.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr uint64_t MIB = uint64_t(1) << 20;

std::unique_ptr<Mover> by(OneAtATime::Move move) { return std::make_unique<OneAtATime>(std::move(move)); }

void in_order() {
  std::vector<uint32_t> seen;
  uint64_t bytes = 0;
  CopyStream stream(StreamId::out, 4, 0, by([&](const CopyJob& j, uint64_t lo, uint64_t hi) {
                      if (lo == 0) seen.push_back(j.transfer);
                      bytes += hi - lo;
                      return Status{};
                    }));
  CopyStream::Ticket last = 0;
  for (uint32_t i = 0; i < 100; i++) {
    last = stream.push({i, i, 20 * MIB, 1});
    if (i % 4 == 3) CHECK(stream.wait(last).ok());  // never more than four in flight
  }
  CHECK(stream.wait(last).ok());
  std::vector<uint32_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(seen == expected);
  CHECK(bytes == 100 * 20 * MIB);
}

void bytes_are_visible_after_the_wait() {
  std::vector<int> from(1 << 20), into(1 << 20);
  CopyStream stream(StreamId::in, 1, 0, by([&](const CopyJob&, uint64_t lo, uint64_t hi) {
                      std::copy(from.begin() + ptrdiff_t(lo / 4), from.begin() + ptrdiff_t(hi / 4), into.begin() + ptrdiff_t(lo / 4));
                      return Status{};
                    }));
  for (int round = 1; round < 50; round++) {
    std::fill(from.begin(), from.end(), round);
    CHECK(stream.wait(stream.push({0, 0, from.size() * 4, 1})).ok());
    CHECK(into.front() == round && into.back() == round);
    std::fill(into.begin(), into.end(), -1);
  }
}

void two_streams_and_compute() {
  // The out stream empties a block while compute fills the other; the in stream brings back the blocks that out has finished.
  std::vector<uint64_t> blocks[2], far[2], back(4096);
  for (auto* v : {&blocks[0], &blocks[1], &far[0], &far[1]}) v->resize(4096);
  CopyStream out(StreamId::out, 2, 0, by([&](const CopyJob& j, uint64_t, uint64_t) {
                   far[j.transfer] = blocks[j.transfer];
                   return Status{};
                 }));
  CopyStream in(StreamId::in, 2, 0, by([&](const CopyJob& j, uint64_t, uint64_t) {
                  back = far[j.transfer];
                  return Status{};
                }));
  CopyStream::Ticket out_tickets[2] = {0, 0};
  for (uint64_t round = 1; round < 200; round++) {
    const uint32_t b = round % 2;
    if (out_tickets[b]) CHECK(out.wait(out_tickets[b]).ok());
    std::fill(blocks[b].begin(), blocks[b].end(), round);
    out_tickets[b] = out.push({b, 0, 4096 * 8, 1});
    if (round < 2) continue;
    CHECK(out.wait(out_tickets[1 - b]).ok());
    CHECK(in.wait(in.push({1 - b, 0, 4096 * 8, 1})).ok());
    CHECK(back[0] == round - 1 && back[4095] == round - 1);
  }
}

void failure_reaches_every_wait() {
  CopyStream stream(StreamId::out, 8, 0,
                    by([](const CopyJob& j, uint64_t, uint64_t) { return j.transfer == 2 ? refuse("disk on fire") : Status{}; }));
  CopyStream::Ticket tickets[5];
  for (uint32_t i = 0; i < 5; i++) tickets[i] = stream.push({i, i, 8, 1});
  CHECK_SAYS(stream.wait(tickets[2]), "disk on fire");
  CHECK_SAYS(stream.wait(tickets[4]), "disk on fire");
  CHECK(stream.wait(tickets[1]).ok());
}

void abandon_ends_soon() {
  std::atomic<uint64_t> moved{0};
  CopyStream stream(StreamId::out, 8, 1e6, by([&](const CopyJob&, uint64_t lo, uint64_t hi) {
                      moved += hi - lo;
                      return Status{};
                    }));
  const Clock::time_point start = Clock::now();
  CopyStream::Ticket last = 0;
  for (uint32_t i = 0; i < 5; i++) last = stream.push({i, i, 100 * MIB, 1});  // a hundred seconds each
  stream.abandon();
  const uint64_t then = moved;
  CHECK(seconds_since(start) < 50);
  CHECK(stream.wait(last).code == Code::cancelled);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(moved == then);
}

void interrupt_from_another_thread() {
  CopyStream stream(StreamId::in, 2, 1000, by([](const CopyJob&, uint64_t, uint64_t) { return Status{}; }));
  const CopyStream::Ticket t = stream.push({0, 0, MIB, 1});
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stream.interrupt();
  });
  CHECK(stream.wait(t).code == Code::cancelled);
  other.join();
}

void throttled_rate() {
  CopyStream stream(StreamId::out, 8, 100e6, by([](const CopyJob&, uint64_t, uint64_t) { return Status{}; }));
  const Clock::time_point start = Clock::now();
  stream.begin_step(start, true);
  CopyStream::Ticket last = 0;
  for (uint32_t i = 0; i < 6; i++) last = stream.push({i, 7, 5'000'000, 1});
  CHECK(stream.wait(last).ok());
  const double seconds = seconds_since(start);
  CHECK(seconds >= 0.3);
  CHECK(seconds < 1.0);
  CHECK(stream.spans().size() == 6);
  for (const Span& s : stream.spans()) CHECK(s.end - s.start >= 0.045 && s.instruction == 7);
}

void idle_streams_end() {
  for (int i = 0; i < 50; i++) CopyStream stream(StreamId::out, 0, 0, by([](const CopyJob&, uint64_t, uint64_t) { return Status{}; }));
}

}  // namespace

int main() {
  test("copies run in order", in_order);
  test("bytes are visible after the wait", bytes_are_visible_after_the_wait);
  test("two streams beside compute", two_streams_and_compute);
  test("a failure reaches every wait", failure_reaches_every_wait);
  test("abandon ends soon and for good", abandon_ends_soon);
  test("interrupt wakes a wait", interrupt_from_another_thread);
  test("a throttled stream keeps its rate", throttled_rate);
  test("idle streams end", idle_streams_end);
  return finish();
}
