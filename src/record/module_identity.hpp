// What tells a module from another one, in memory and in its file: a hash of its build id or, where the linker has made
// none, of the first bytes of its ELF header. Two files with the same identity have the same code at the same places, as
// far as that can be told; a file that was replaced has another one.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace usher::inline v1::record {

/// FNV-1a.
inline std::uint64_t fnv(const void* bytes, std::size_t size, std::uint64_t hash = 0xcbf29ce484222325) {
  const auto* const c = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; i++) hash = (hash ^ c[i]) * 0x100000001b3;
  return hash;
}

namespace identity_detail {
/// Sets `hash` to that of the build id in a segment of notes, if it has one. False: they cannot be read.
template <class Read>
bool of_notes(const Read& read, std::uint64_t at, std::uint64_t size, std::uint64_t align, std::uint64_t& hash) {
  constexpr std::uint32_t longest = 64;  // of a build id; chosen: SHA-1 has 20 bytes
  const std::uint64_t mask = align == 8 ? 7 : 3;
  for (unsigned notes = 0; notes < 16; notes++) {
    Elf64_Nhdr note;
    if (size < sizeof note) return true;
    if (!read(at, &note, sizeof note)) return false;
    const std::uint64_t text = (sizeof note + std::uint64_t{note.n_namesz} + mask) & ~mask,
                        all = (text + note.n_descsz + mask) & ~mask;
    char name[4];
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof name && note.n_descsz <= longest &&
        text + note.n_descsz <= size) {
      unsigned char id[longest];
      if (!read(at + sizeof note, name, sizeof name) || !read(at + text, id, note.n_descsz)) return false;
      if (std::memcmp(name, "GNU", sizeof name) == 0) {
        hash = fnv(id, note.n_descsz);
        return true;
      }
    }
    if (all >= size) return true;
    at += all;
    size -= all;
  }
  return true;
}
}  // namespace identity_detail

/// Calls read(place, to, size), which is false where nothing can be read; place 0 is the ELF header's. `place_of` is the
/// place of a segment's content. 0: not known.
template <class Read, class Place>
std::uint64_t module_identity(const Read& read, const Place& place_of) {
  constexpr unsigned most_segments = 64;  // chosen; linkers make about a dozen
  constexpr std::uint64_t first_bytes = 256;
  Elf64_Ehdr head;
  if (!read(0, &head, sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
    return 0;
  for (unsigned i = 0; i < head.e_phnum && i < most_segments; i++) {
    Elf64_Phdr p;
    if (!read(head.e_phoff + i * sizeof p, &p, sizeof p)) return 0;
    if (p.p_type != PT_NOTE) continue;
    std::uint64_t of_build = 0;
    if (!identity_detail::of_notes(read, place_of(p), p.p_filesz, p.p_align, of_build)) return 0;
    if (of_build != 0) return of_build;
  }
  std::uint64_t hash = fnv(&head, sizeof head);
  for (std::uint64_t at = sizeof head; at < first_bytes; at += 8) {
    std::uint64_t word;
    if (!read(at, &word, sizeof word)) return 0;
    hash = fnv(&word, sizeof word, hash);
  }
  return hash != 0 ? hash : 1;
}

}  // namespace usher::inline v1::record
