// Names of a tape: which instruction completes a loss. See bindings.cpp.
#pragma once
#include "plan/tape.hpp"

namespace spillway {

/// The last instruction whose call writes the binding's value; NONE when none does.
uint32_t last_writer(const Tape& tape, const BindingRecord& binding);

}  // namespace spillway
