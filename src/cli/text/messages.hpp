// Error messages and warnings of the command: one line each on stderr, never on stdout.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace usher::cli {

/// Exit statuses of the command itself, the same as those of `env` and `timeout`. All others are those of the started program.
enum exit_status : int {
  bad_usage = 2,
  cannot_start = 125,  ///< a part of Usher is missing or broken
  not_executable = 126,
  not_found = 127,
};

// Each message is formatted first and written by one call, so that the lines of several processes do not mix.

template <class... Args>
void report_error(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = "usher: " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  std::fputs(line.c_str(), stderr);
}

/// The older name.
template <class... Args>
void complain(fmt::format_string<Args...> format, Args&&... args) {
  report_error(format, std::forward<Args>(args)...);
}

template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = "usher: warning: " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace usher::cli
