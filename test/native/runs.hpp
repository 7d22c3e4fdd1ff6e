// Opens a session on a hand-built tape with synthetic data and runs it: the common part of the runtime's tests.
#pragma once
#include "runtime/session.hpp"
#include "test/native/checking.hpp"
#include "test/native/tape_builder.hpp"

namespace spillway::testing {

struct Opened {
  std::unique_ptr<Session> session;
  std::unique_ptr<Source> source;
};

/// An opened session whose weights are set; its failure is a failure of the test.
inline Opened open_session(const TapeBuilder& tape, SessionOptions options = {}, uint64_t samples = 3) {
  if (!options.device) options.device = find_device("ref");
  options.threads = 1;
  auto opened = Session::open(tape.bytes(), options);
  if (!opened.ok()) throw std::runtime_error(opened.status().message);
  Opened o{std::move(opened).value(), nullptr};
  o.source = std::make_unique<Source>(o.session->tape());
  for (uint32_t i = 0; i < o.session->tape().bindings.size(); i++) {
    const BindingRecord& b = o.session->tape().bindings[i];
    if (b.fed()) o.source->set_synthetic(i, {.seed = 5, .samples = samples, .classes = 5});
    if (!b.persistent()) continue;
    if (const Status s = o.session->init(i, 11); !s.ok()) throw std::runtime_error(s.message);
  }
  return o;
}

/// Reads the first weight, or returns the reason why it cannot be read now.
inline Status read_first(Opened& o) {
  std::vector<std::byte> into(o.session->size(0).value());
  return o.session->read(0, into);
}

inline RunMetrics run(Opened& o, RunOptions options) {
  options.source = o.source.get();
  if (const Status s = o.session->begin(options); !s.ok()) throw std::runtime_error(s.message);
  return o.session->finish();
}

inline std::vector<std::byte> bytes_of(Opened& o, std::string_view name) {
  const uint32_t binding = o.session->find(name);
  std::vector<std::byte> bytes(o.session->size(binding).value());
  if (const Status s = o.session->read(binding, bytes); !s.ok()) throw std::runtime_error(s.message);
  return bytes;
}

/// Calls 0 to 7 of the classifier: the sixth makes the gradients, the others behind it read them. Between: all_sums of both beside a call
/// that sums the gradient of the output in its turn, on the ranks' first way; `early`: both go there, and the first is begun early.
inline TapeBuilder shared_by(TapeBuilder t, uint32_t ranks, bool early = false) {
  const uint64_t e = t.element(), offset = (t.buffers[0].bytes + 63) / 64 * 64;
  const auto operand = [&](uint32_t call, uint32_t i) { return t.operands[t.calls[call].first_operand + i]; };
  const uint32_t dlogits = operand(4, 2), dw = operand(5, 2), db = operand(5, 3);
  t.buffers[0].bytes = offset + 8192;
  const auto scratch = [&](uint64_t at) { return t.view(0, offset + at, {uint32_t(4096 / e)}, false, t.float_type); };
  const uint32_t bucket = t.call(OpKind::all_sums, {dw, db}, {dw, db}, {double(ranks), early ? 0.0 : 1.0});
  t.calls[bucket].workspace_view = scratch(0);
  const ViewRecord& v = t.views[dlogits];
  const uint32_t flat = t.view(v.buffer, v.offset, {v.dims[0] * v.dims[1]}, false, t.float_type);
  const uint32_t beside = t.call(OpKind::all_sum, {flat}, {flat}, {double(ranks)});
  t.calls[beside].workspace_view = scratch(4096);
  const size_t sgd = t.instrs.size() - 2;
  const uint32_t event = t.events++;
  t.instrs.insert(t.instrs.begin() + ptrdiff_t(sgd),
                  {{Tag::exchange, bucket, event, 0}, {Tag::call, beside, 0, 0}, {Tag::wait, event, 2, 0}});
  return t;
}

}  // namespace spillway::testing
