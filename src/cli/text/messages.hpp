// What the command says when something is amiss: one line on stderr, never on stdout.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace usher::cli {

/// Exit statuses of the command itself, as `env` and `timeout` have them; all others are the started
/// program's.
enum exit_status : int {
  bad_usage = 2,
  cannot_start = 125,  ///< something of Usher's own is missing or broken
  not_executable = 126,
  not_found = 127,
};

// A line is put together first and written at once, so that lines of several processes do not mix.

template <class... Args>
void complain(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = "usher: " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  std::fputs(line.c_str(), stderr);
}

/// A sentence on stderr that is neither an error nor a warning: one line, which is broken only on a terminal.
void print_note(const std::string& sentence);

template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = "usher: warning: " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace usher::cli
