// Opens a session on a hand-built tape with synthetic data and runs it: what the runtime's tests share.
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

/// Whether the first weight can be read now.
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

}  // namespace spillway::testing
