// Finds libusher.so and makes the value of LD_PRELOAD that loads it.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "support/elf/elf.hpp"

namespace usher::cli {

struct preload_library {
  std::string path;  ///< absolute
  elf_target target;
};

/// The library cannot be used. The text is an error message of one line.
struct no_library {
  std::string reason;
};

/// Finds the library: the one that USHER_LIBRARY names, otherwise the one near this program.
std::variant<preload_library, no_library> find_library();

/// Returns the path of libusher-stat.so, which `usher stat` loads after `library`. Empty if that file is missing beside
/// `library`, or if LD_PRELOAD cannot hold its path.
std::string companion_of(const std::string& library);

/// The value of LD_PRELOAD with `library`: before all other entries of `existing`, but after the runtimes of sanitizers.
/// The companion follows `library` if `with_companion`, or if `existing` has one: the command runs under `usher stat`.
std::string preload_list(std::string_view existing, const std::string& library, bool with_companion = false);

bool has_usher(std::string_view preload, const std::string& library);

/// The value of LD_PRELOAD without any copy of Usher's libraries.
std::string without_usher(std::string_view existing, const std::string& library);

/// Whether a library of that name or path is a sanitizer's runtime, which must be loaded first.
bool is_sanitizer_runtime(std::string_view name);

}  // namespace usher::cli
