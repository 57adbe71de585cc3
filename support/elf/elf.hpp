// The parts of an ELF file that the loader uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace usher::support {

/// The processor and word size that a file is for.
struct elf_target {
  unsigned char word_size = 0;   ///< ELFCLASS32 or ELFCLASS64
  unsigned char byte_order = 0;  ///< ELFDATA2LSB or ELFDATA2MSB
  std::uint16_t machine = 0;     ///< EM_X86_64, …

  bool operator==(const elf_target&) const = default;
};

struct elf_file {
  elf_target target;

  // The members below are read only from files for this machine.
  bool is_native = false;
  std::string interpreter;          ///< the loader; empty in a static program
  std::string soname;               ///< DT_SONAME
  std::vector<std::string> needed;  ///< DT_NEEDED
  bool embeds_locks = false;        ///< has the note of Usher's headers (platform/native/state_definition.hpp)
  bool records_locks = false;       ///< has that of USHER_RECORD (platform/native/recorded.hpp)
};

/// Reads an ELF file. Nullopt if the file does not exist, cannot be read, or is not ELF.
std::optional<elf_file> read_elf(const std::string& path);

}  // namespace usher::support
