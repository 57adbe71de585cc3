// Words of the environment and of the shell.
#pragma once

#include <cstdlib>
#include <string>

namespace usher::cli {

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// In single quotes, as a POSIX shell reads it back.
inline std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace usher::cli
