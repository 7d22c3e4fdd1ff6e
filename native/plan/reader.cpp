// Header and section table: untrusted bytes become vectors of records. The passes of checks.hpp do the rest.
// Invariant: every byte is read after its range has been compared with the size of the blob, in 64-bit arithmetic
// that cannot overflow.
#include "plan/reader.hpp"

#include <cstring>

#include "plan/checks.hpp"
#include "plan/forms.hpp"

namespace spillway {
namespace {

using Bytes = std::span<const std::byte>;

template <class Record>
Status load_section(Bytes bytes, uint64_t offset, uint64_t count, const char* name, std::vector<Record>& into) {
  if (offset % 8 != 0) return refuse("section ", name, ": offset ", offset, " is not a multiple of 8");
  if (offset < sizeof(HeaderRecord) || offset > bytes.size()) return refuse("section ", name, ": offset ", offset, " is outside the tape");
  if (count > (bytes.size() - offset) / sizeof(Record)) return refuse("section ", name, ": ", count, " records exceed the end of the tape");
  if (count >= NONE) return refuse("section ", name, ": ", count, " records exceed the range of 32-bit indices");
  into.resize(count);
  if (count > 0) std::memcpy(into.data(), bytes.data() + offset, count * sizeof(Record));
  return {};
}

Status check_header(Bytes bytes, const HeaderRecord& h) {
  if (std::memcmp(h.magic, TAPE_MAGIC, sizeof h.magic) != 0) return refuse("this is not a tape: it does not start with ", TAPE_MAGIC);
  if (h.version != TAPE_VERSION) return refuse("tape version ", h.version, "; this runtime reads version ", TAPE_VERSION);
  if (h.bytes != bytes.size()) return refuse("the header says ", h.bytes, " bytes; the tape has ", bytes.size());
  if (h.checksum != tape_checksum(bytes)) return refuse("the checksum is wrong: the tape is damaged");
  if (Status s = check_form(h, Counts{}); !s.ok()) return refuse("header: ", s.message);
  if (h.page_bytes != PAGE_BYTES) return refuse("header: pages of ", h.page_bytes, " bytes; this runtime uses pages of ", PAGE_BYTES);
  if (h.peak_pages > h.budget_pages) return refuse("header: a peak of ", h.peak_pages, " pages exceeds the budget of ", h.budget_pages);
  if (h.peak_pages > MAX_POOL_PAGES) return refuse("header: ", h.peak_pages, " pages exceed this runtime's limit (", MAX_POOL_PAGES, ")");
  if (h.tier_bytes > MAX_BYTES) return refuse("header: a lower tier of ", h.tier_bytes, " bytes is too large");
  return {};
}

Status load(Bytes bytes, Tape& tape) {
  HeaderRecord h;
  if (bytes.size() < sizeof h) return refuse("the tape has ", bytes.size(), " bytes; its header alone needs ", sizeof h);
  std::memcpy(&h, bytes.data(), sizeof h);
  if (Status s = check_header(bytes, h); !s.ok()) return s;
  tape.float_type = h.float_type;
  tape.events = h.events;
  tape.budget_pages = h.budget_pages;
  tape.peak_pages = h.peak_pages;
  tape.tier_bytes = h.tier_bytes;
  Status status;
  const uint64_t* entry = h.sections;
  Sections::each(tape, [&](const char* name, const char*, auto& into) {
    if (status.ok()) status = load_section(bytes, entry[0], entry[1], name, into);
    entry += 2;
  });
  return status;
}

}  // namespace

uint64_t tape_checksum(Bytes bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t i = CHECKED_FROM; i < bytes.size(); i++) hash = (hash ^ uint64_t(bytes[i])) * 0x100000001b3;
  return hash;
}

Result<Tape> read_tape(Bytes bytes) {
  Tape tape;
  if (Status s = load(bytes, tape); !s.ok()) return s;
  if (Status s = check_records(tape); !s.ok()) return s;
  if (Status s = check_calls(tape); !s.ok()) return s;
  const Result<PageMap> map = PageMap::of(tape);
  if (!map.ok()) return map.status();
  if (Status s = check_bindings_held(tape, map.value()); !s.ok()) return s;
  if (Status s = check_run(tape, map.value()); !s.ok()) return s;
  return tape;
}

}  // namespace spillway
