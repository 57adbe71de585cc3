// Reads the parts of an ELF file that decide whether a preload works. A damaged file gives fewer facts but never a crash, since every
// read checks its offset.
#include "support/elf/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace usher::support {
namespace {

// Limits for a file that claims more than it has, such as millions of entries. Chosen, not measured: no real program
// needs as much.
constexpr std::size_t most_needed = 4096;
constexpr std::uint64_t most_dynamic_bytes = 1 << 20;
constexpr std::uint64_t most_note_bytes = 1 << 14;

class file {
 public:
  explicit file(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~file() {
    if (fd_ >= 0) close(fd_);
  }
  file(const file&) = delete;
  file& operator=(const file&) = delete;

  template <class T>
  bool read(std::uint64_t offset, T& to) const {
    return pread(fd_, &to, sizeof to, static_cast<off_t>(offset)) == ssize_t{sizeof to};
  }

  /// The text at `offset`, up to its null byte.
  std::string text(std::uint64_t offset) const {
    char buffer[4096];
    const ssize_t n = pread(fd_, buffer, sizeof buffer, static_cast<off_t>(offset));
    return n <= 0 ? std::string() : std::string(buffer, strnlen(buffer, static_cast<std::size_t>(n)));
  }

 private:
  int fd_;
};

std::vector<ElfW(Phdr)> segments(const file& f, const ElfW(Ehdr) & header) {
  std::vector<ElfW(Phdr)> found;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    if (!f.read(header.e_phoff + std::uint64_t{i} * sizeof segment, segment)) break;
    found.push_back(segment);
  }
  return found;
}

/// Converts an address to an offset in the file: the dynamic section gives the address of its string table, and the
/// loaded segments have both.
std::uint64_t offset_of(std::uint64_t address, const std::vector<ElfW(Phdr)>& segments) {
  for (const auto& s : segments)
    if (s.p_type == PT_LOAD && address - s.p_vaddr < s.p_filesz) return address - s.p_vaddr + s.p_offset;
  return 0;
}

void read_dynamic(const file& f, const ElfW(Phdr) & dynamic, const std::vector<ElfW(Phdr)>& segments, elf_file& into) {
  std::uint64_t strings = 0;
  std::uint64_t soname = 0;
  std::vector<std::uint64_t> needed;
  const std::uint64_t size = std::min<std::uint64_t>(dynamic.p_filesz, most_dynamic_bytes);
  for (std::uint64_t at = 0; at + sizeof(ElfW(Dyn)) <= size; at += sizeof(ElfW(Dyn))) {
    ElfW(Dyn) entry;
    if (!f.read(dynamic.p_offset + at, entry) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings = offset_of(entry.d_un.d_ptr, segments);
    if (entry.d_tag == DT_SONAME) soname = entry.d_un.d_val;
    if (entry.d_tag == DT_NEEDED && needed.size() < most_needed) needed.push_back(entry.d_un.d_val);
  }
  if (strings == 0) return;
  if (soname != 0) into.soname = f.text(strings + soname);
  for (const std::uint64_t name : needed) into.needed.push_back(f.text(strings + name));
}

/// Searches a segment for the ELF notes that Usher's headers, of any release, put into a program. A file may claim any
/// sizes, so the search ends at a limit, and each step is at least as long as the header of a note.
void find_our_notes(const file& f, const ElfW(Phdr) & notes, elf_file& into) {
  constexpr std::string_view embeds = "usher_process_state_v", records = "usher_record_v";
  const std::uint64_t align = notes.p_align == 8 ? 8 : 4;
  const auto rounded = [align](std::uint64_t size) { return (size + align - 1) / align * align; };
  const std::uint64_t size = std::min<std::uint64_t>(notes.p_filesz, most_note_bytes);
  for (std::uint64_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) note;
    if (!f.read(notes.p_offset + at, note)) return;
    if (note.n_namesz > records.size()) {
      const std::string owner = f.text(notes.p_offset + at + sizeof note);
      into.embeds_locks = into.embeds_locks || owner.starts_with(embeds);
      into.records_locks = into.records_locks || owner.starts_with(records);
    }
    at = rounded(rounded(at + sizeof note + note.n_namesz) + note.n_descsz);
  }
}

}  // namespace

std::optional<elf_file> read_elf(const std::string& path) {
  const file f(path);
  // These fields have the same offsets for both word sizes.
  struct {
    unsigned char ident[EI_NIDENT];
    std::uint16_t type;
    std::uint16_t machine;
  } start;
  if (!f.read(0, start) || std::memcmp(start.ident, ELFMAG, SELFMAG) != 0) return std::nullopt;

  elf_file result;
  result.target = {start.ident[EI_CLASS], start.ident[EI_DATA], start.machine};
  constexpr unsigned char our_word_size = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  constexpr unsigned char our_byte_order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
  ElfW(Ehdr) header;
  if (result.target.word_size != our_word_size || result.target.byte_order != our_byte_order || !f.read(0, header) ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    return result;

  result.is_native = true;
  const auto all = segments(f, header);
  const auto first = [&all](std::uint32_t type) {
    return std::find_if(all.begin(), all.end(), [type](const auto& s) { return s.p_type == type; });
  };
  if (const auto s = first(PT_INTERP); s != all.end()) result.interpreter = f.text(s->p_offset);
  if (const auto s = first(PT_DYNAMIC); s != all.end()) read_dynamic(f, *s, all, result);
  unsigned segments_of_notes = 0;
  for (const auto& s : all)
    if (s.p_type == PT_NOTE && ++segments_of_notes <= 16) find_our_notes(f, s, result);
  return result;
}

}  // namespace usher::support
