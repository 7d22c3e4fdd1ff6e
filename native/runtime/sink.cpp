// Copies, or writes until all is written.
#include "runtime/sink.hpp"

#include <fcntl.h>

#include <algorithm>

namespace spillway {

Sink::Sink(const Tape& tape) : tape_(tape), places_(tape.bindings.size()) {
  for (size_t i = 0; i < places_.size(); i++) places_[i].bytes = dense_bytes(tape.views[tape.bindings[i].view]);
}

Status Sink::set_memory(uint32_t binding, std::span<std::byte> into) {
  Place& p = places_[binding];
  if (into.size() != p.bytes) return refuse("'", tape_.name(tape_.bindings[binding]), "' has ", p.bytes, " bytes, not ", into.size());
  p.memory = into;
  return {};
}

Status Sink::set_file(uint32_t binding, const std::string& path) {
  Place& p = places_[binding];
  p.file = File(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  p.path = path;
  return p.file ? Status{} : at_fault(path, failed(Code::io, "it cannot be written: ", system_error()));
}

Status Sink::check() const {
  for (size_t i = 0; i < places_.size(); i++)
    if (tape_.bindings[i].role == BindingRole::output && places_[i].memory.empty() && !places_[i].file)
      return refuse("'", tape_.name(tape_.bindings[i]), "' is an output of the plan, but no sink is given for it");
  return {};
}

Status Sink::write_file(const Place& place, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(place.file.fd(), bytes.data(), bytes.size(), off_t(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return at_fault(place.path, failed(Code::io, "cannot write ", bytes.size(), " bytes at byte ", offset, ": ", system_error()));
    bytes = bytes.subspan(size_t(n));
    offset += uint64_t(n);
  }
  return {};
}

Status Sink::write(uint32_t binding, uint64_t offset, std::span<const std::byte> bytes) {
  const Place& p = places_[binding];
  if (offset > p.bytes || bytes.size() > p.bytes - offset)
    return refuse("bytes exceed the end of '", tape_.name(tape_.bindings[binding]), "'");
  if (p.memory.empty()) return write_file(p, offset, bytes);
  std::copy(bytes.begin(), bytes.end(), p.memory.begin() + ptrdiff_t(offset));
  return {};
}

}  // namespace spillway
