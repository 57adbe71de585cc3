// Paths and files.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "support/process/owned_descriptor.hpp"

namespace usher::support {

inline bool is_file(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

/// The part after the last slash.
constexpr std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0: all of it
}

/// The first `most` bytes of a file; empty if it cannot be read. `name` is relative to the directory `folder`
/// (AT_FDCWD: the working directory).
inline std::string content_of(int folder, const std::string& name, std::size_t most = 1 << 20) {
  const owned_descriptor file(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC));
  std::string all;
  char part[4096];
  for (ssize_t n = 0; file.is_open() && all.size() < most && (n = ::read(file.get(), part, sizeof part)) > 0;)
    all.append(part, std::min(static_cast<std::size_t>(n), most - all.size()));
  return all;
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

}  // namespace usher::support
