// The names of the libraries that are preloaded. libusher.so has the usual locks; libusher-all.so, which is preloaded in
// its place for another lock, has all.
#pragma once

#include <string_view>

namespace usher::support {

inline constexpr std::string_view library_name = "libusher.so", full_library_name = "libusher-all.so";

/// Whether a file of this name is one of the two, perhaps with a version: "libusher.so.1".
inline bool is_library_name(std::string_view name) {
  for (const std::string_view ours : {library_name, full_library_name})
    if (name.starts_with(ours) && (name.size() == ours.size() || name[ours.size()] == '.')) return true;
  return false;
}

}  // namespace usher::support
