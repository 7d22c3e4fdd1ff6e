// Finds the loaded object that holds the address, and the note of the linker among its notes.
#include "runtime/build_id.hpp"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <span>

namespace spillway {
namespace {

using Header = ElfW(Phdr);
using Note = ElfW(Nhdr);

struct Search {
  uintptr_t address;
  std::string id;
};

std::string hexadecimal(std::span<const unsigned char> bytes) {
  constexpr char DIGITS[] = "0123456789abcdef";
  std::string s;
  for (const unsigned char b : bytes) s.append({DIGITS[b >> 4], DIGITS[b & 15]});
  return s;
}

/// Notes follow one another: sizes, name, description, the last two padded.
std::string id_among(const unsigned char* at, const unsigned char* end, size_t alignment) {
  const auto padded = [alignment](size_t n) { return (n + alignment - 1) / alignment * alignment; };
  while (at + sizeof(Note) <= end) {
    Note note;
    std::memcpy(&note, at, sizeof note);
    const unsigned char* const name = at + sizeof note;
    const unsigned char* const description = name + padded(note.n_namesz);
    at = description + padded(note.n_descsz);
    if (at > end) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU && std::memcmp(name, ELF_NOTE_GNU, note.n_namesz) == 0)
      return hexadecimal({description, note.n_descsz});
  }
  return {};
}

/// Reads one loaded object; 1 ends the search.
int look_into(dl_phdr_info* object, size_t, void* asked) {
  Search& search = *static_cast<Search*>(asked);
  const std::span<const Header> headers(object->dlpi_phdr, object->dlpi_phnum);
  bool holds = false;
  for (const Header& h : headers) holds |= h.p_type == PT_LOAD && search.address - (object->dlpi_addr + h.p_vaddr) < h.p_memsz;
  if (!holds) return 0;
  for (const Header& h : headers) {
    if (h.p_type != PT_NOTE || !search.id.empty()) continue;
    const auto* const notes = reinterpret_cast<const unsigned char*>(object->dlpi_addr + h.p_vaddr);
    search.id = id_among(notes, notes + h.p_memsz, h.p_align == 8 ? 8 : 4);
  }
  return 1;
}

}  // namespace

std::string build_id(const void* inside) {
  Search search{reinterpret_cast<uintptr_t>(inside), {}};
  ::dl_iterate_phdr(look_into, &search);
  return search.id;
}

}  // namespace spillway
