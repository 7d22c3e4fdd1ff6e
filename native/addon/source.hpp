// A run's data source from its JavaScript description.
#pragma once
#include <napi.h>

#include <functional>
#include <memory>
#include <vector>

#include "runtime/source.hpp"

namespace spillway::addon {

/// A source and the arrays of JavaScript that it reads.
struct HeldSource {
  std::unique_ptr<Source> source;
  std::vector<Napi::ObjectReference> held;
};

/// {kind: 'synthetic', seed, samples, classes}, {kind: 'files', files: {binding name: file, or files that follow each other}, order} or
/// {kind: 'slots', slots, arrays: {binding name: {data, dtype, shape, layout, scale, shift}}} or
/// {kind: 'bands', last, arrays: {binding name: the same}}, each of as many samples as it has slots, of as many rows as a band has; `ask`
/// is called by the thread that reads.
HeldSource parse_source(const Napi::Value& value, const Tape& tape, uint64_t first_step, uint64_t steps,
                        const std::function<void(const BandRequest&)>& ask);

}  // namespace spillway::addon
