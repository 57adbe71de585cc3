// Reads the parts of an ELF file from which the command learns whether libusher.so works when it is preloaded into the
// program.
#include "support/elf/elf.hpp"

#include "fuzz.hpp"

USHER_FUZZ_TARGET(elf) {
  const file_of file(input);
  const auto read = usher::support::read_elf(file.path());
  if (!read) return;
  use(read->interpreter);
  use(read->soname);
  for (const std::string& name : read->needed) use(name);
}
