// What the loader of a program or library will go by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace usher::cli {

/// Which processors and which word size a file is for.
struct elf_target {
  unsigned char word_size = 0;   ///< ELFCLASS32 or ELFCLASS64
  unsigned char byte_order = 0;  ///< ELFDATA2LSB or ELFDATA2MSB
  std::uint16_t machine = 0;     ///< EM_X86_64, …

  bool operator==(const elf_target&) const = default;
};

struct elf_file {
  elf_target target;

  // The rest is read only from files that are for this machine.
  bool is_native = false;
  std::string interpreter;          ///< the loader: empty in a static program
  std::string soname;               ///< the name that a library has for itself
  std::vector<std::string> needed;  ///< the libraries that it asks for
};

/// Nullopt if there is no such file, it cannot be read, or it is not ELF.
std::optional<elf_file> read_elf(const std::string& path);

}  // namespace usher::cli
