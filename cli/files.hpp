// Files that this program looks for, most of them near itself.
#pragma once

#include <filesystem>
#include <system_error>

namespace usher::cli {

inline bool is_file(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

/// Where this program itself is, without links; empty if that cannot be told.
inline std::filesystem::path own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

}  // namespace usher::cli
