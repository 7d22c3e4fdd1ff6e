// Looks for the first number of a step that is not finite: operands of calls, before and after they run.
// In: a tape in a device's pages, a call. Out: which operand, and where in its value. Invariant: it reads boxes as views say, no byte more
// than their spans; nothing is kept of the device's memory but one block.
#pragma once
#include <optional>
#include <vector>

#include "runtime/pages.hpp"

namespace spillway {

/// Operands are numbered from the inputs on; `at` is a place in the whole value. `made`: by the call, of numbers that were finite.
struct NotFinite {
  uint64_t step = 0;
  uint32_t call = 0, operand = 0;
  uint32_t at[4] = {0, 0, 0, 0};
  double value = 0;
  bool made = false;
};

class FiniteSearch {
 public:
  FiniteSearch(const Tape& tape, OpenDevice& device, const Pages& pages) : tape_(tape), device_(device), pages_(pages) {}

  /// Checks the inputs of a call; the device has finished all earlier work.
  Result<std::optional<NotFinite>> before(uint32_t call);
  /// Checks the outputs of a call, and the inputs that it updates in place.
  Result<std::optional<NotFinite>> after(uint32_t call);

 private:
  Result<std::optional<NotFinite>> among(uint32_t call, uint32_t from, uint32_t to);
  Result<std::optional<NotFinite>> in(const ViewRecord& view);
  /// Elements [first, first + count) from the view's start on; only those that the box has count.
  Result<std::optional<NotFinite>> in_span(const ViewRecord& view, uint64_t first, uint64_t count);

  const Tape& tape_;
  OpenDevice& device_;
  const Pages& pages_;
  std::vector<std::byte> block_ = std::vector<std::byte>(uint64_t(1) << 20);
};

}  // namespace spillway
