// The identity of a module: a hash of its build id or, if the linker wrote none, of its first bytes, which begin with
// the ELF header. It is the same in memory and in the file. Two files with the same identity are assumed to have the
// same code at the same addresses; a file that replaces another has a different identity.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace usher::inline v2::contract {

inline constexpr std::uint64_t fnv_basis = 0xcbf29ce484222325;
/// FNV-1a.
inline std::uint64_t fnv(const void* bytes, std::size_t size, std::uint64_t hash = fnv_basis) {
  const auto* const c = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; i++) hash = (hash ^ c[i]) * 0x100000001b3;
  return hash;
}

namespace identity_detail {

/// Adds `size` bytes to the hash, 8 at a time to use little stack, since a signal handler's stack may be small. False
/// if the bytes cannot be read.
template <class Read>
bool add(const Read& read, std::uint64_t at, std::uint64_t size, std::uint64_t& hash) {
  for (std::uint64_t done = 0; done < size; done += 8) {
    unsigned char bytes[8];
    const std::size_t n = size - done < sizeof bytes ? size - done : sizeof bytes;
    if (!read(at + done, bytes, n)) return false;
    hash = fnv(bytes, n, hash);
  }
  return true;
}

/// Sets `hash` to the hash of the build id in a segment of notes, if there is one. False if the notes cannot be read.
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
      if (!read(at + sizeof note, name, sizeof name)) return false;
      if (std::memcmp(name, "GNU", sizeof name) == 0) return add(read, at + text, note.n_descsz, hash = fnv_basis);
    }
    if (all >= size) return true;
    at += all;
    size -= all;
  }
  return true;
}

}  // namespace identity_detail

/// Computes the identity. Returns 0 if it is unknown. read(place, to, size) copies bytes, and returns false if they
/// cannot be read; place 0 is the ELF header. place_of(offset, address) converts a segment's file offset and address to
/// a place.
template <class Read, class Place>
std::uint64_t module_identity(const Read& read, const Place& place_of) {
  constexpr unsigned most_segments = 64;  // chosen; linkers make about a dozen
  constexpr std::uint64_t first_bytes = 256;
  unsigned char ident[EI_CLASS + 1];
  Elf64_Off headers;
  Elf64_Half size, count;
  if (!read(0, ident, sizeof ident) || std::memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_CLASS] != ELFCLASS64 ||
      !read(offsetof(Elf64_Ehdr, e_phoff), &headers, sizeof headers) ||
      !read(offsetof(Elf64_Ehdr, e_phentsize), &size, sizeof size) || size != sizeof(Elf64_Phdr) ||
      !read(offsetof(Elf64_Ehdr, e_phnum), &count, sizeof count))
    return 0;
  std::uint64_t hash = 0;
  for (unsigned i = 0; i < count && i < most_segments; i++) {
    const std::uint64_t at = headers + std::uint64_t{i} * sizeof(Elf64_Phdr);
    Elf64_Word type;
    Elf64_Xword offset, address, length, align;
    if (!read(at + offsetof(Elf64_Phdr, p_type), &type, sizeof type)) return 0;
    if (type != PT_NOTE) continue;
    if (!read(at + offsetof(Elf64_Phdr, p_offset), &offset, sizeof offset) ||
        !read(at + offsetof(Elf64_Phdr, p_vaddr), &address, sizeof address) ||
        !read(at + offsetof(Elf64_Phdr, p_filesz), &length, sizeof length) ||
        !read(at + offsetof(Elf64_Phdr, p_align), &align, sizeof align) ||
        !identity_detail::of_notes(read, place_of(offset, address), length, align, hash))
      return 0;
    if (hash != 0) return hash;
  }
  if (!identity_detail::add(read, 0, first_bytes, hash = fnv_basis)) return 0;
  return hash != 0 ? hash : 1;
}

}  // namespace usher::inline v2::contract
