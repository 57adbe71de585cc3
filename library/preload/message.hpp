// Reads the environment and writes to stderr without the C++ run-time library, even before the C library has started.
#pragma once

#include <unistd.h>

#include <cstring>
#include <string_view>

#include "usher/platform/native/system_call.h"

namespace usher::preload {

/// Returns the value of an environment variable; empty if it is not set. Reads `environ`, which musl has, too. No other
/// thread can change the environment this early.
inline std::string_view variable(const char* name) {
  const std::size_t length = std::strlen(name);
  for (char** e = environ; e != nullptr && *e != nullptr; e++)
    if (std::strncmp(*e, name, length) == 0 && (*e)[length] == '=') return *e + length + 1;
  return {};
}

/// Returns the first 64 characters. Not by substr(), which may throw and so needs the C++ run-time library.
inline std::string_view clipped(std::string_view text) {
  return {text.data(), text.size() < 64 ? text.size() : 64};
}

/// Writes one line to stderr: "usher", then the parts, cut after 255 characters.
template <class... Parts>
void say(Parts... parts) {
  char line[256];
  std::size_t n = 0;
  const auto put = [&](std::string_view s) {
    for (char c : s)
      if (n < sizeof line - 1) line[n++] = c;
  };
  put("usher");
  (put(parts), ...);
  line[n++] = '\n';
  native_detail::system_call(SYS_write, STDERR_FILENO, line, n);  // write() would be a cancellation point
}

}  // namespace usher::preload
