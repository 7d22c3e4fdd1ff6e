// Header and section table: untrusted bytes become vectors of records. The passes of checks.hpp do the rest.
// Invariant: every byte is read after its range has been compared with the size of the blob, in 64-bit arithmetic
// that cannot overflow.
#include "plan/reader.hpp"

#include <cstring>

#include "plan/checks.hpp"

namespace spillway {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t HEADER_BYTES = 256;
constexpr uint64_t CHECKED_FROM = 32;
constexpr uint64_t SECTION_TABLE = 72;
constexpr uint32_t VERSION = 1;
/// 8 TiB of device memory: beyond it the reader's own tables would be the larger risk.
constexpr uint64_t MAX_POOL_PAGES = uint64_t(1) << 22;
constexpr uint64_t MAX_TIER_BYTES = uint64_t(1) << 56;

template <class T>
T load(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class Record>
Status load_section(Bytes bytes, uint32_t index, const char* name, std::vector<Record>& into) {
  const auto offset = load<uint64_t>(bytes, SECTION_TABLE + 16 * index);
  const auto count = load<uint64_t>(bytes, SECTION_TABLE + 16 * index + 8);
  if (offset % 8 != 0) return refuse("section ", name, ": offset ", offset, " is no multiple of 8");
  if (offset < HEADER_BYTES || offset > bytes.size()) return refuse("section ", name, ": offset ", offset, " is outside the tape");
  if (count > (bytes.size() - offset) / sizeof(Record)) return refuse("section ", name, ": ", count, " records pass the end of the tape");
  if (count >= NONE) return refuse("section ", name, ": ", count, " records are more than 32-bit indices reach");
  into.resize(count);
  if (count > 0) std::memcpy(into.data(), bytes.data() + offset, count * sizeof(Record));
  return {};
}

Status load_header(Bytes bytes, Tape& tape) {
  if (bytes.size() < HEADER_BYTES) return refuse("the tape has ", bytes.size(), " bytes; its header alone takes ", HEADER_BYTES);
  if (std::memcmp(bytes.data(), "SPILLWAY", 8) != 0) return refuse("this is no tape: it does not start with SPILLWAY");
  if (const auto v = load<uint32_t>(bytes, 8); v != VERSION) return refuse("tape version ", v, "; this runtime reads version ", VERSION);
  if (const auto n = load<uint64_t>(bytes, 16); n != bytes.size())
    return refuse("the header says ", n, " bytes, the tape has ", bytes.size());
  if (load<uint64_t>(bytes, 24) != tape_checksum(bytes)) return refuse("the checksum is wrong: the tape is damaged");
  const auto float_type = load<uint32_t>(bytes, 12);
  if (float_type > 1) return refuse("header: unknown float type ", float_type);
  tape.float_type = DType(float_type);
  if (const auto p = load<uint32_t>(bytes, 32); p != PAGE_BYTES) return refuse("header: pages of ", p, " bytes; this runtime has pages of ", PAGE_BYTES);
  tape.events = load<uint32_t>(bytes, 36);
  tape.budget_pages = load<uint64_t>(bytes, 40);
  tape.peak_pages = load<uint64_t>(bytes, 48);
  tape.pool_pages = load<uint64_t>(bytes, 56);
  tape.tier_bytes = load<uint64_t>(bytes, 64);
  if (load<uint64_t>(bytes, 248) != 0) return refuse("header: the reserved field is not 0");
  if (tape.pool_pages > tape.budget_pages) return refuse("header: a pool of ", tape.pool_pages, " pages is over the budget of ", tape.budget_pages);
  if (tape.pool_pages != tape.peak_pages) return refuse("header: a pool of ", tape.pool_pages, " pages, but a peak of ", tape.peak_pages);
  if (tape.pool_pages > MAX_POOL_PAGES) return refuse("header: ", tape.pool_pages, " pages are more than this runtime handles (", MAX_POOL_PAGES, ")");
  if (tape.tier_bytes > MAX_TIER_BYTES) return refuse("header: a lower tier of ", tape.tier_bytes, " bytes");
  return {};
}

Status load_sections(Bytes bytes, Tape& tape) {
  uint32_t index = 0;
  Status status;
  const auto next = [&](const char* name, auto& into) {
    if (status.ok()) status = load_section(bytes, index++, name, into);
  };
  next("buffers", tape.buffers);
  next("mappings", tape.mappings);
  next("residencies", tape.residencies);
  next("views", tape.views);
  next("calls", tape.calls);
  next("operands", tape.operands);
  next("attrs", tape.attrs);
  next("instrs", tape.instrs);
  next("transfers", tape.transfers);
  next("bindings", tape.bindings);
  next("strings", tape.strings);
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
  if (Status s = load_header(bytes, tape); !s.ok()) return s;
  if (Status s = load_sections(bytes, tape); !s.ok()) return s;
  if (Status s = check_records(tape); !s.ok()) return s;
  if (Status s = check_calls(tape); !s.ok()) return s;
  const Result<PageMap> map = PageMap::of(tape);
  if (!map.ok()) return map.status();
  if (Status s = check_bindings_held(tape, map.value()); !s.ok()) return s;
  if (Status s = check_run(tape, map.value()); !s.ok()) return s;
  return tape;
}

}  // namespace spillway
