// Where libusher.so is, and what LD_PRELOAD must say for it to be loaded.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "cli/elf/elf.hpp"

namespace usher::cli {

struct preload_library {
  std::string path;  ///< absolute
  elf_target target;
};

/// Why the library cannot be used, for people; one line.
struct no_library {
  std::string reason;
};

/// The library that USHER_LIBRARY names, else the one near this program.
std::variant<preload_library, no_library> find_library();

/// LD_PRELOAD with `library` in its place: before everything that is in `existing`, but after sanitizers'
/// runtimes.
std::string preload_list(std::string_view existing, const std::string& library);

bool has_usher(std::string_view preload, const std::string& library);

/// LD_PRELOAD without Usher's library, wherever it is from.
std::string without_usher(std::string_view existing, const std::string& library);

/// Whether a library of that name or path is a sanitizer's runtime: these must come first.
bool is_sanitizer_runtime(std::string_view name);

}  // namespace usher::cli
