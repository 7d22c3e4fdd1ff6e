// The places of named bytes, between steps and at the end of one. In: a tape whose records are right. Out: weights and state are
// in pages held for ever, or have a home; and the instruction that completes each loss. The loss is read right after it, because
// its pages may be free at the end of the step.
#include "plan/bindings.hpp"

#include "plan/checks.hpp"

namespace spillway {
namespace {

bool writes(const Tape& tape, const CallRecord& c, const ViewRecord& value) {
  for (uint32_t o = c.ins; o < uint32_t(c.ins) + c.outs; o++) {
    const ViewRecord& v = tape.views[tape.operands[c.first_operand + o]];
    if (v.buffer == value.buffer && v.offset == value.offset) return true;
  }
  return false;
}

bool held_for_ever(const Tape& tape, const PageMap& map, const ViewRecord& v) {
  bool unmapped = false;
  return for_each_block(v, [&](uint64_t lo, uint64_t hi) {
    return map.walk(tape, v.buffer, lo, hi, unmapped, [&](const PhysSpan& s) { return tape.residencies[s.residency].for_ever(); });
  });
}

}  // namespace

uint32_t last_writer(const Tape& tape, const BindingRecord& b) {
  for (size_t i = tape.instrs.size(); i-- > 0;) {
    const InstrRecord& instr = tape.instrs[i];
    if (instr.tag == Tag::call && writes(tape, tape.calls[instr.a], tape.views[b.view])) return uint32_t(i);
  }
  return NONE;
}

Status check_bindings_held(const Tape& tape, const PageMap& map) {
  for (size_t i = 0; i < tape.bindings.size(); i++) {
    const BindingRecord& b = tape.bindings[i];
    if (b.persistent() && !tape.at_home(b) && !held_for_ever(tape, map, tape.views[b.view]))
      return refuse("binding ", i, " ('", tape.name(b), "'): its bytes are not held permanently");
    if (b.role == BindingRole::loss && last_writer(tape, b) == NONE)
      return refuse("binding ", i, " ('", tape.name(b), "'): no call writes this loss");
  }
  return {};
}

}  // namespace spillway
