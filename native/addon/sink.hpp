// A run's outputs from their JavaScript description: {binding name: {path} or a Uint8Array of exactly the value's bytes}.
// Invariant: the arrays are kept for as long as the sink.
#pragma once
#include <napi.h>

#include <memory>
#include <vector>

#include "runtime/sink.hpp"

namespace spillway::addon {

struct OutputSink {
  explicit OutputSink(const Tape& tape) : sink(tape) {}
  Sink sink;
  std::vector<Napi::ObjectReference> kept;
};

/// None where none is given. To be let go on JavaScript's thread.
std::shared_ptr<OutputSink> parse_sink(const Napi::Value& value, const Tape& tape);

}  // namespace spillway::addon
