// The locks of the catalogue that this library lacks: libusher-all.so has all, libusher.so only the usual ones.
#pragma once

#include <span>
#include <string_view>

#include "library/catalog/names.hpp"
#include "usher/core/ways_of_waiting.hpp"

namespace usher::preload {

/// The end of the error message about such a lock. It follows the lock's name and the environment variable's.
inline constexpr std::string_view where_it_is =
    " is not in libusher.so, but in libusher-all.so: name that one in LD_PRELOAD, or start the program by usher run. "
    "Running on the C library's ";

/// The names of these locks, without a suffix for a way of waiting. The build makes the list from
/// library/catalog/catalog.list; in libusher-all.so it is empty.
std::span<const char* const> missing_locks();

/// Whether only libusher-all.so has the lock of this name, with or without the suffix of a way of waiting.
inline bool is_missing(std::string_view name) {
  for (const std::string_view plain : missing_locks()) {
    if (without_default_suffix(name) == plain) return true;
    for (const way_of_waiting& way : ways_of_waiting)
      if (name.size() == plain.size() + std::string_view(way.suffix).size() && name.starts_with(plain) &&
          name.ends_with(way.suffix))
        return true;
  }
  return false;
}

}  // namespace usher::preload
