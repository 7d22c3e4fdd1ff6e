// Ranks that train together in one test: the classifier's tape, whose gradients are exchanged beside a call that needs none of them.
#pragma once
#include <string>
#include <thread>

#include "test/native/runs.hpp"

namespace spillway::testing {

inline size_t find(const TapeBuilder& t, Tag tag, size_t from = 0) {
  for (size_t i = from; i < t.instrs.size(); i++)
    if (t.instrs[i].tag == tag) return i;
  throw std::runtime_error("no such instruction");
}

struct Trained {
  std::vector<std::byte> weight, bias;
  double loss = 0;
  bool operator==(const Trained&) const = default;
};

/// The state of one rank after a number of steps, on the reference device, or on one with lanes and graphs of its own; nothing after a
/// failure.
inline Trained train_as(Communicator* rank, uint64_t steps, const Device* device = nullptr, bool early = false) {
  Opened o = open_session(shared_by(device ? with_workspace(classifier(false, DType::f32)) : classifier(false), rank->size, early),
                          {.device = device});
  const RunMetrics m = run(o, {.steps = steps, .timeline = true, .communicator = rank});
  check(m.status.ok() && m.steps.size() == steps, "a rank trains", __FILE__, __LINE__, m.status.message);
  if (m.steps.empty()) return {};
  CHECK(m.sent_bytes > 0 && m.steps.back().beside_seconds > 0);
  size_t exchanged = 0;
  for (const Span& s : m.timeline.spans) exchanged += s.stream == StreamId::ranks;
  CHECK(exchanged == 1);
  return {bytes_of(o, "head.weight"), bytes_of(o, "head.bias"), m.steps.back().loss};
}

inline std::vector<Trained> train(uint32_t ranks, uint64_t steps, const Device* device = nullptr, bool early = false) {
  auto opened = open_thread_ranks(ranks);
  CHECK(opened.ok());
  std::vector<OwnCommunicator> all = std::move(opened).value();
  std::vector<Trained> out(ranks);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; r++) threads.emplace_back([&, r] { out[r] = train_as(all[r].get(), steps, device, early); });
  for (std::thread& t : threads) t.join();
  return out;
}

}  // namespace spillway::testing
