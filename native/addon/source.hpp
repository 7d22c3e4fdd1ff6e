// A run's data source from its JavaScript description.
#pragma once
#include <napi.h>

#include <memory>

#include "runtime/source.hpp"

namespace spillway::addon {

/// {kind: 'synthetic', seed, samples, classes} or {kind: 'files', files: {binding name: file, or files that follow each other}}.
std::unique_ptr<Source> parse_source(const Napi::Value& value, const Tape& tape);

}  // namespace spillway::addon
