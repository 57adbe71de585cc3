// Finds libusher.so or libusher-all.so, and makes the value of LD_PRELOAD that loads it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "support/elf/elf.hpp"
#include "usher/catalog.hpp"

namespace usher::support {

/// The locks of a run.
struct wanted_locks {
  const lock_table* mutex = nullptr;  ///< null: the C library's
  std::string_view rwlock = {};       ///< empty: the C library's
};

struct preload_library {
  std::string path;  ///< of the one with the usual locks; absolute
  elf_target target;
  std::string full;  ///< of the one with all locks, perhaps the same; empty: not looked for, since no lock needs it

  /// The path of the library to preload for one of the runs for which the library was looked for.
  const std::string& with(const wanted_locks& wanted) const;
};

/// The library cannot be used. The text is an error message of one line.
struct no_library {
  std::string reason;
};

/// The library that USHER_LIBRARY names, else libusher.so near this program; and libusher-all.so beside it if one of the
/// runs needs it.
std::variant<preload_library, no_library> find_library(std::span<const wanted_locks> runs);
/// For one run: its `path` is that of the library to preload.
std::variant<preload_library, no_library> find_library(const wanted_locks& run);

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

}  // namespace usher::support
