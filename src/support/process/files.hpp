// Paths and files.
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

/// The part after the last slash.
constexpr std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0: all of it
}

/// The path of this program without symbolic links; empty if it is not known.
inline std::filesystem::path own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

/// Whether both names lead to the same file, which need not exist yet.
inline bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code none;
  return fs::equivalent(a, b, none) ||
         fs::weakly_canonical(fs::absolute(a), none) == fs::weakly_canonical(fs::absolute(b), none);
}

}  // namespace usher::cli
