// Files that this program looks for, most of them near itself.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace usher::cli {

inline bool is_file(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

/// What is after the last slash.
constexpr std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0: all of it
}

/// Where this program itself is, without links; empty if that cannot be told.
inline std::filesystem::path own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

/// Whether both names mean one file, also if there is none yet.
inline bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code none;
  return fs::equivalent(a, b, none) ||
         fs::weakly_canonical(fs::absolute(a), none) == fs::weakly_canonical(fs::absolute(b), none);
}

}  // namespace usher::cli
