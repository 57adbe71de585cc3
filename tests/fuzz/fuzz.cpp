#include "fuzz.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace usher::fuzz {

file_of::file_of(bytes content) : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
  if (descriptor_ < 0 || write(descriptor_, content.data(), content.size()) != static_cast<ssize_t>(content.size()))
    std::abort();
}

file_of::~file_of() {
  close(descriptor_);
}

std::string file_of::path() const {
  return fmt::format("/proc/self/fd/{}", descriptor_);
}

void use(std::string_view text) {
  static volatile std::size_t all = 0;
  for (const char c : text) all = all + static_cast<unsigned char>(c);
}

}  // namespace usher::fuzz
