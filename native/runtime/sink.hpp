// The places for the bytes of outputs: the caller's memory, or a file. In: a binding, a range of bytes of its stored value (B, H, W, C),
// each once a step. Out: those bytes, present at the end of the run. Invariant: writes stay inside the given place; one thread writes at
// a time. Worked example: an output has three pages. The first is written while the tile of the second runs, and is then at bytes [0,
// page) of the file.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "plan/tape.hpp"
#include "runtime/handles.hpp"

namespace spillway {

class Sink {
 public:
  explicit Sink(const Tape& tape);

  /// Exactly the bytes of the value.
  Status set_memory(uint32_t binding, std::span<std::byte> into);
  /// A file that is made, or made empty.
  Status set_file(uint32_t binding, const std::string& path);
  /// Says which output has nowhere to go.
  Status check() const;

  Status write(uint32_t binding, uint64_t offset, std::span<const std::byte> bytes);

 private:
  struct Place {
    uint64_t bytes = 0;
    std::span<std::byte> memory = {};
    File file = {};
    std::string path = {};
  };
  Status write_file(const Place& place, uint64_t offset, std::span<const std::byte> bytes);

  const Tape& tape_;
  std::vector<Place> places_;  // by binding
};

}  // namespace spillway
